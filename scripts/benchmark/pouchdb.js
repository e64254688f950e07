// The view work in PouchDB: documents, a map over three columns, and saving a document and reading the first 50 rows of
// the view.
//
// `node pouchdb.js MODULES FOLDER DOCUMENTS UPDATES` prints the figures as JSON. MODULES is the folder in which
// `pouchdb` is installed.
'use strict';
const path = require('path');
const [modules, folder, documents, updates] = process.argv.slice(2);
const PouchDB = require(path.join(modules, 'node_modules', 'pouchdb'));
const count = Number(documents), turns = Number(updates);

// A pseudo-random generator with a fixed seed (mulberry32).
let state = 7;
function below(limit) {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
}

function document(number) {
  return {
    _id: String(number).padStart(8, '0'), form: 'Order', subject: `Order of Paris number ${number}`, customer: `Customer ${below(1000)}`,
    sender: `CN=User ${String(below(20000)).padStart(5, '0')}/OU=Sales/O=Acme`, status: 'open', price: below(1000000) / 100, date: 1600000000 + below(100000000),
  };
}

function seconds(start) {
  return Number(process.hrtime.bigint() - start) / 1e9;
}

async function main() {
  const base = new PouchDB(path.join(folder, 'documents'));
  for (let first = 0; first < count; first += 1000) {
    await base.bulkDocs(Array.from({ length: Math.min(1000, count - first) }, (_, index) => document(first + index)));
  }
  await base.put({ _id: '_design/by', views: { sender: { map: 'function (doc) { emit([doc.sender, doc.date, doc.subject], doc.price); }' } } });
  let start = process.hrtime.bigint();
  await base.query('by/sender', { limit: 0 });
  const build = seconds(start);
  const both = [], reads = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const id = String(below(count)).padStart(8, '0');
    const old = await base.get(id);
    start = process.hrtime.bigint();
    await base.put({ ...document(Number(id)), _rev: old._rev });
    await base.query('by/sender', { limit: 50 });
    both.push(seconds(start) * 1000);
    start = process.hrtime.bigint();
    await base.query('by/sender', { limit: 50 });
    reads.push(seconds(start) * 1000);
  }
  const median = (list) => list.sort((one, other) => one - other)[Math.floor(list.length / 2)];
  console.log(JSON.stringify({ documents: count, build_per_second: count / build, update_and_read_ms: median(both), first_ms: median(reads) }));
  await base.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
