// A PouchDB that is offline most of the time: reads one request a line from standard input, and prints one reply a line.
// {"op":"edit","number":7} adds the field V7 to a random document, {"op":"create","number":8} creates a document,
// {"op":"delete"} deletes one and lists the numbers of its fields, {"op":"sync","url":"https://…"} replicates both ways, {"op":"leaves"} lists the documents with their leaves.
'use strict'

const readline = require('readline')
const PouchDB = require(process.env.MODULES + '/pouchdb')

const { FOLDER: folder, LOGIN: username, PASSWORD: password } = process.env
const phone = new PouchDB(folder)

async function leaves (db) {
  const listed = await db.allDocs({ include_docs: true, conflicts: true })
  const docs = listed.rows.map(({ doc }) => [doc._id, doc._rev, (doc._conflicts || []).sort()])
  return docs.sort((one, other) => (one[0] < other[0] ? -1 : 1))
}

async function some (choice, isWanted) {
  const { rows } = await phone.allDocs({ include_docs: true })
  const docs = rows.map((row) => row.doc).filter(isWanted)
  return docs[Math.floor(choice * docs.length)]
}

const SYNC_TIME_MAX_MS = 120_000

// When a server is killed, requests fail whose promises PouchDB drops. The replication fails by itself.
process.on('unhandledRejection', (error) => console.error(String(error)))

const remote = (url) => new PouchDB(url, { auth: { username, password }, skip_setup: true })

const requests = {
  async edit ({ number, choice }) {
    const doc = await some(choice, (doc) => !String(doc.Subject).startsWith('doomed'))
    if (!doc) return { done: false }
    await phone.put({ ...doc, [`V${number}`]: number })
    return { done: true, id: doc._id }
  },
  async create ({ number }) {
    const id = `phone-${number}`
    await phone.put({ _id: id, Subject: 'from the phone', [`V${number}`]: number })
    return { done: true, id }
  },
  async delete ({ choice }) {
    const doc = await some(choice, (doc) => doc.Subject === 'new' || doc.Subject === 'from the phone')
    if (!doc) return { done: false }
    await phone.remove(doc)
    const seen = Object.keys(doc).filter((name) => /^V\d+$/.test(name)).map((name) => Number(name.slice(1)))
    return { done: true, id: doc._id, seen }
  },
  async sync ({ url }) {
    const replication = phone.sync(remote(url))
    const timer = setTimeout(() => replication.cancel(), SYNC_TIME_MAX_MS)
    const { push, pull } = await Promise.resolve(replication).finally(() => clearTimeout(timer))
    const failed = push.doc_write_failures + pull.doc_write_failures
    return { done: failed === 0, moved: push.docs_written + pull.docs_written, errors: push.errors }
  },
  async leaves ({ url }) {
    return { done: true, leaves: await leaves(url ? remote(url) : phone) }
  },
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line)
    let reply
    try {
      reply = await requests[request.op](request)
    } catch (error) {
      reply = { done: false, error: String(error.message || error.reason || error) }
    }
    console.log(JSON.stringify(reply))
  }
}

main()
