// Replication of PouchDB with a server: `node pouchdb_replicate.js MODULES FOLDER URL COUNT` pushes COUNT documents of
// 10 KB to the database at URL, then pulls them into an empty one, and prints the seconds of both as JSON. LOGIN and
// PASSWORD are credentials, if the server needs them. Before each of the two, and at the end, it writes a line and waits
// for one, so that the caller can read the processor time of the server.
'use strict';
const path = require('path');
const crypto = require('crypto');
const readline = require('readline');
const [modules, folder, url, total] = process.argv.slice(2);
const PouchDB = require(path.join(modules, 'node_modules', 'pouchdb'));
const { LOGIN: username, PASSWORD: password } = process.env;
const count = Number(total);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function pause(word) {
  console.log(word);
  await lines.next();
}

async function timed(work) {
  const start = process.hrtime.bigint();
  const done = await work();
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  if (!done.ok || done.errors.length || done.docs_written !== count) {
    throw new Error(`not complete: ${JSON.stringify(done)}`);
  }
  return seconds;
}

async function main() {
  const remote = new PouchDB(url, username ? { auth: { username, password } } : {});
  const source = new PouchDB(path.join(folder, 'source'));
  for (let first = 0; first < count; first += 1000) {
    const length = Math.min(1000, count - first);
    await source.bulkDocs(Array.from({ length }, (_, index) => ({ _id: `d${first + index}`, text: crypto.randomBytes(5000).toString('hex') })));
  }
  await pause('push');
  const push = await timed(() => source.replicate.to(remote, { batch_size: 500 }));
  await pause('pull');
  const pull = await timed(() => new PouchDB(path.join(folder, 'target')).replicate.from(remote, { batch_size: 500 }));
  await pause('end');
  console.log(JSON.stringify({ push, pull }));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
