// Plays one scene with PouchDB: `node client.js SCENE`. The environment names the database (URL), the folder for local
// databases (FOLDER), and the credentials (LOGIN, PASSWORD). Prints what the caller checks as JSON.
'use strict'

const assert = require('assert')
const crypto = require('crypto')
const PouchDB = require(process.env.MODULES + '/pouchdb')

const { URL: url, FOLDER: folder, LOGIN: username, PASSWORD: password } = process.env
const remote = (name = url) => new PouchDB(name, { auth: { username, password } })
const local = (name) => new PouchDB(`${folder}/${name}`)
const basic = { authorization: 'Basic ' + Buffer.from(`${username}:${password}`).toString('base64') }

async function request (path, options = {}) {
  const headers = { ...basic, 'content-type': 'application/json', ...options.headers }
  return fetch(url + path, { ...options, headers })
}

// Values of all kinds that JSON has, and some that look like the server's own.
const VALUES = {
  text: 'Grüße ☕', empty: '', five: 5, fraction: -0.1, large: 1e300, integer: 9007199254740991, yes: true, no: false,
  nothing: null, texts: ['a', 'b'], numbers: [1, 2.5], mixed: [1, 'a', null, { b: [] }], none: [], nested: { a: { b: [{}] } },
  one: ['a'], type: { $type: 'unknown', $value: 1 }, $dollar: 'x', Case: 1, case: 2, long: 'x'.repeat(20000),
}

const attachment = (text) => ({ content_type: 'text/plain', data: Buffer.from(text) })

async function all (db) {
  const listed = await db.allDocs({ include_docs: true, attachments: true, conflicts: true })
  const docs = listed.rows.map((row) => row.doc)
  for (const doc of docs) {
    for (const file of Object.values(doc._attachments || {})) {
      delete file.revpos
      delete file.digest
    }
  }
  return docs.sort((one, other) => (one._id < other._id ? -1 : 1))
}

// Documents without what only the server has.
const own = (doc) => Object.fromEntries(Object.entries(doc).filter(([name]) => name !== '$UpdatedBy'))

async function replicate (source, target, options) {
  const done = await source.replicate.to(target, options)
  assert.strictEqual(done.ok, true)
  assert.deepStrictEqual(done.errors, [])
  return done
}

const scenes = {
  // Documents made offline arrive as they are, and another client gets them as they were.
  async push () {
    const phone = local('phone')
    const docs = []
    for (let number = 0; number < 250; number++) {
      docs.push({ _id: `doc-${number}`, number, ...VALUES })
    }
    await phone.bulkDocs(docs)
    await phone.put({ _id: 'with files', _attachments: { 'a b.txt': attachment('hello'), 'empty': attachment('') } })
    await phone.put({ _id: '00112233445566778899aabbccddeeff', kind: 'a UNID' })
    await phone.put({ _id: '_design/app', views: { all: { map: 'function (doc) { emit(doc._id) }' } } })
    await phone.put({ _id: 'Ä/ö?#&=+ ☕', odd: true })
    const edited = await phone.get('doc-0')
    await phone.put({ ...edited, number: 1000 })
    const done = await replicate(phone, remote())
    assert.strictEqual(done.docs_written, 254)
    const tablet = local('tablet')
    await replicate(remote(), tablet)
    assert.deepStrictEqual((await all(tablet)).map(own), (await all(phone)).map(own))
    const again = await replicate(phone, remote())
    assert.strictEqual(again.docs_written, 0)
    return { docs: docs.length }
  },

  // Changes on both sides travel both ways, without conflicts.
  async sync () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    await phone.put({ ...(await phone.get('doc-1')), changed: 'phone' })
    await tablet.put({ ...(await tablet.get('doc-2')), changed: 'tablet' })
    await tablet.remove(await tablet.get('doc-3'))
    for (const client of [phone, tablet, phone]) await client.sync(remote())
    assert.deepStrictEqual((await all(phone)).map(own), (await all(tablet)).map(own))
    assert.strictEqual((await phone.get('doc-2')).changed, 'tablet')
    await assert.rejects(phone.get('doc-3'), { status: 404 })
    return {}
  },

  // The same document is changed on both: every replica picks the same winner, and the loser is a conflict.
  async conflict () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    await phone.put({ ...(await phone.get('doc-4')), side: 'phone' })
    await tablet.put({ ...(await tablet.get('doc-4')), side: 'tablet' })
    for (const client of [phone, tablet, phone]) await client.sync(remote())
    const found = []
    for (const db of [phone, tablet, remote()]) {
      const doc = await db.get('doc-4', { conflicts: true })
      found.push([doc._rev, doc.side, doc._conflicts])
      const loser = await db.get('doc-4', { rev: doc._conflicts[0] })
      assert.notStrictEqual(loser.side, doc.side)
    }
    assert.deepStrictEqual(found[0], found[1])
    assert.deepStrictEqual(found[0], found[2])
    return { winner: found[0][1] }
  },

  // A client resolves the conflict: it deletes the losing leaf. The conflict is gone everywhere.
  async resolve () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    const doc = await phone.get('doc-4', { conflicts: true })
    await phone.put({ ...doc, _conflicts: undefined, side: 'both' })
    await phone.remove('doc-4', doc._conflicts[0])
    for (const client of [phone, tablet]) await client.sync(remote())
    for (const db of [phone, tablet, remote()]) {
      const resolved = await db.get('doc-4', { conflicts: true })
      assert.strictEqual(resolved.side, 'both')
      assert.strictEqual(resolved._conflicts, undefined)
    }
    return {}
  },

  // An edit of the losing leaf becomes the winner if it has more saves, and takes the place of its ancestor.
  async branch () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    await phone.put({ ...(await phone.get('doc-5')), side: 'phone' })
    await tablet.put({ ...(await tablet.get('doc-5')), side: 'tablet' })
    for (const client of [phone, tablet, phone]) await client.sync(remote())
    const before = await phone.get('doc-5', { conflicts: true })
    const loser = await phone.get('doc-5', { rev: before._conflicts[0] })
    await phone.put({ ...loser, side: 'more' })
    for (const client of [phone, tablet]) await client.sync(remote())
    for (const db of [phone, tablet, remote()]) {
      const doc = await db.get('doc-5', { conflicts: true })
      assert.strictEqual(doc.side, 'more')
      assert.deepStrictEqual(doc._conflicts, [before._rev])
    }
    return {}
  },

  // One side deletes while the other one edits: the edit survives.
  async deletion () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    await phone.remove(await phone.get('doc-6'))
    await tablet.put({ ...(await tablet.get('doc-6')), kept: true })
    for (const client of [phone, tablet, phone]) await client.sync(remote())
    for (const db of [phone, tablet, remote()]) assert.strictEqual((await db.get('doc-6')).kept, true)
    await phone.remove(await phone.get('doc-6'))
    await phone.sync(remote())
    await tablet.sync(remote())
    for (const db of [phone, tablet, remote()]) await assert.rejects(db.get('doc-6'), { status: 404 })
    await phone.put({ _id: 'doc-6', again: true })
    for (const client of [phone, tablet]) await client.sync(remote())
    assert.strictEqual((await tablet.get('doc-6')).again, true)
    return {}
  },

  // Lists of the server are those of a client that has the same documents: ranges of ids in both directions.
  async lists () {
    const [phone, db] = [local('phone'), remote()]
    await phone.sync(db)
    const ranges = [
      {}, { descending: true }, { startkey: 'doc-1', endkey: 'doc-2\ufff0' }, { startkey: 'doc-2', endkey: 'doc-20', inclusive_end: false },
      { startkey: 'doc-2', endkey: 'doc-1', descending: true }, { skip: 5, limit: 7 }, { startkey: 'doc-9', limit: 3, include_docs: true },
      { key: 'doc-7' }, { keys: ['doc-8', 'absent', 'doc-3'] }, { startkey: 'zzz' },
    ]
    for (const range of ranges) {
      const [here, there] = [await phone.allDocs(range), await db.allDocs(range)]
      const ids = (list) => list.rows.map((row) => [row.id || row.key, row.error])
      assert.deepStrictEqual(ids(there), ids(here), JSON.stringify(range))
      if (!range.keys) assert.strictEqual(there.total_rows, here.total_rows, JSON.stringify(range))
    }
    const all = (await db.changes({ limit: 1e6 })).results.map((row) => row.id).reverse()
    const back = await db.changes({ descending: true, limit: 3 })
    assert.deepStrictEqual(back.results.map((row) => row.id), all.slice(0, 3))
    return { documents: (await db.allDocs({ limit: 0 })).total_rows }
  },

  // Random edits, deletions and syncs on three clients end with equal databases and equal winners.
  async random () {
    const clients = ['one', 'two', 'three'].map(local)
    const seed = Number(process.env.SEED || 1)
    let state = seed
    const below = (limit) => {
      state = (state * 1103515245 + 12345) % 2147483648
      return Math.floor(state / 65536) % limit
    }
    for (const client of clients) await client.sync(remote())
    for (let step = 0; step < 150; step++) {
      const client = clients[below(3)]
      const id = `r-${below(6)}`
      const doc = await client.get(id, { conflicts: true }).catch(() => null)
      const kind = below(10)
      if (kind < 4) {
        await client.put({ ...(doc && { _rev: doc._rev }), _id: id, step, by: client.name.slice(-5) })
      } else if (kind < 6 && doc) {
        await client.remove(doc)
      } else if (kind < 7 && doc && doc._conflicts) {
        await client.remove(id, doc._conflicts[below(doc._conflicts.length)])
      } else if (kind < 8 && doc && doc._conflicts) {
        const rev = doc._conflicts[below(doc._conflicts.length)]
        await client.put({ _id: id, _rev: rev, step, extended: true })
      } else {
        await client.sync(remote())
      }
    }
    let moved = 1
    for (let round = 0; moved > 0; round++) {
      assert.ok(round < 10, 'the clients do not come to rest')
      moved = 0
      for (const client of clients) {
        const { push, pull } = await client.sync(remote())
        moved += push.docs_written + pull.docs_written
      }
    }
    const sorted = (docs) => docs.filter((doc) => doc._id.startsWith('r-'))
      .map((doc) => ({ ...doc, _conflicts: (doc._conflicts || []).sort() }))
    const expected = sorted(await all(clients[0])).map(own)
    for (const db of [remote(), ...clients.slice(1)]) {
      const found = sorted(await all(db)).map(own)
      assert.deepStrictEqual(found, expected, `${db.name}: ${JSON.stringify(found)} not ${JSON.stringify(expected)}`)
    }
    return { docs: expected.length, conflicts: expected.filter((doc) => doc._conflicts.length).length }
  },

  // A live replication brings what changes on the server within a moment, and goes on after the server was restarted.
  async live () {
    const [phone, tablet] = [local('phone'), local('tablet')]
    const handler = phone.sync(remote(), { live: true, retry: true, back_off_function: () => 200 })
    const other = tablet.sync(remote(), { live: true, retry: true, back_off_function: () => 200 })
    const arrives = async (db, id) => {
      for (let tries = 0; tries < 300; tries++) {
        const doc = await db.get(id).catch(() => null)
        if (doc) return
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      throw new Error(`${id} did not arrive`)
    }
    await phone.put({ _id: 'live-1' })
    await arrives(tablet, 'live-1')
    console.log('READY')
    await new Promise((resolve) => process.stdin.once('data', resolve))
    await tablet.put({ _id: 'live-2' })
    await arrives(phone, 'live-2')
    handler.cancel()
    other.cancel()
    return {}
  },

  // Filters choose documents by ids and by conditions.
  async filter () {
    const chosen = local('chosen')
    await replicate(remote(), chosen, { doc_ids: ['doc-7', 'doc-8'] })
    assert.deepStrictEqual((await all(chosen)).map((doc) => doc._id), ['doc-7', 'doc-8'])
    const selected = local('selected')
    await replicate(remote(), selected, { selector: { number: { $gte: 240, $lt: 245 } } })
    assert.deepStrictEqual((await all(selected)).map((doc) => doc.number), [240, 241, 242, 243, 244])
    return {}
  },

  // A client that comes back continues at its place, also after a restart of the server.
  async checkpoint () {
    const tablet = local('tablet')
    await tablet.replicate.from(remote())
    const done = await tablet.replicate.from(remote())
    assert.strictEqual(done.docs_read, 0)
    return { read: done.docs_read }
  },

  // The server as a database without a local one: revisions of the server, and the errors that clients expect.
  async direct () {
    const db = remote()
    const saved = await db.put({ _id: 'direct', n: 1 })
    await assert.rejects(db.put({ _id: 'direct', n: 2 }), { status: 409 })
    const next = await db.put({ _id: 'direct', _rev: saved.rev, n: 2 })
    assert.ok(next.rev.startsWith('2-'))
    await assert.rejects(db.put({ _id: 'direct', _rev: saved.rev, n: 3 }), { status: 409 })
    const posted = await db.post({ posted: true })
    assert.match(posted.id, /^[0-9a-f-]{32,36}$/)
    const file = await db.putAttachment('direct', 'x.bin', next.rev, crypto.randomBytes(300000), 'application/x-test')
    assert.strictEqual((await db.getAttachment('direct', 'x.bin')).length, 300000)
    const kept = await db.put({ ...(await db.get('direct')), n: 4 })
    assert.strictEqual((await db.getAttachment('direct', 'x.bin')).length, 300000)
    const gone = await db.removeAttachment('direct', 'x.bin', kept.rev)
    await assert.rejects(db.getAttachment('direct', 'x.bin'), { status: 404 })
    await db.remove('direct', gone.rev)
    await assert.rejects(db.get('direct'), { status: 404 })
    const again = await db.put({ _id: 'direct', n: 5 })
    assert.ok(Number(again.rev.split('-')[0]) > Number(gone.rev.split('-')[0]))
    const outcomes = await db.bulkDocs([{ _id: 'direct', n: 6 }, { _id: 'bulk' }])
    assert.deepStrictEqual([outcomes[0].status, outcomes[1].ok], [409, true])
    assert.ok(file.ok)
    const info = await db.info()
    assert.ok(info.doc_count > 0)
    return {}
  },

  // Raw requests: sessions, errors and limits.
  async requests () {
    const status = async (path, options) => (await request(path, options)).status
    const root = new URL('/', url).href
    const anonymous = await fetch(url)
    assert.strictEqual(anonymous.status, 401)
    const wrong = await fetch(url, { headers: { authorization: 'Basic ' + Buffer.from('ann:no').toString('base64') } })
    assert.strictEqual(wrong.status, 401)
    const login = await fetch(root + '_session', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: username, password }),
    })
    assert.strictEqual(login.status, 200)
    const cookie = login.headers.get('set-cookie').split(';')[0]
    assert.ok(login.headers.get('set-cookie').includes('HttpOnly'))
    assert.strictEqual((await fetch(url, { headers: { cookie } })).status, 200)
    const foreign = await fetch(url + '/evil', { method: 'PUT', headers: { cookie, origin: 'https://evil.test' }, body: '{}' })
    assert.strictEqual(foreign.status, 403)
    await fetch(root + '_session', { method: 'DELETE', headers: { cookie } })
    assert.strictEqual((await fetch(url, { headers: { cookie } })).status, 401)
    assert.strictEqual((await fetch(root)).status, 200)
    assert.strictEqual(await status('', { method: 'PUT' }), 412)
    assert.strictEqual(await status('x', { method: 'PUT' }), 403)
    assert.strictEqual(await status('/_nothing'), 501)
    assert.strictEqual(await status('/_bulk_docs', { method: 'POST', body: '{' }), 400)
    assert.strictEqual(await status('/_bulk_docs', { method: 'POST', body: '{}' }), 400)
    assert.strictEqual(await status('/_changes?since=nonsense'), 400)
    assert.strictEqual(await status('/x', { method: 'PUT', body: JSON.stringify({ _secret: 1 }) }), 400)
    assert.strictEqual(await status('/_changes?filter=app/mine'), 501)
    const odd = await request('/_bulk_docs', {
      method: 'POST', body: JSON.stringify({ new_edits: false, docs: [{ _id: 'x', _rev: 'nonsense' }, { _id: '_x' }] })
    })
    assert.deepStrictEqual((await odd.json()).map((answer) => answer.error), ['bad_request', 'bad_request'])
    const forged = { _id: 'forged', _rev: '2000000000-' + 'f'.repeat(32) }
    const refused = await request('/_bulk_docs', { method: 'POST', body: JSON.stringify({ new_edits: false, docs: [forged] }) })
    assert.deepStrictEqual((await refused.json()).map((answer) => answer.error), ['forbidden'])
    const waiting = await request('/_changes?feed=longpoll&since=now&timeout=100')
    assert.deepStrictEqual((await waiting.json()).results, [])
    return {}
  },

  // What the rights of a person allow: TRIES are documents to save, DELETIONS ids, and HIDDEN ids that must not be found.
  async rights () {
    const db = remote()
    const { tries, deletions, hidden } = JSON.parse(process.env.TRIES)
    const copy = local(`of-${username}`)
    const { status } = await request('')
    if (status !== 200) {
      await assert.rejects(copy.replicate.from(db))
      return { status, documents: (await copy.info()).doc_count }
    }
    await replicate(db, copy)
    const seen = await all(copy)
    assert.deepStrictEqual((await all(db)).map(own), seen.map(own))
    for (const id of hidden) {
      await assert.rejects(db.get(id), { status: 404 }, id)
      assert.strictEqual((await db.allDocs({ keys: [id] })).rows[0].error, 'not_found', id)
      const told = (await db.changes({ doc_ids: [id], filter: '_doc_ids', include_docs: true })).results
      assert.deepStrictEqual(told, [], id)
      const { results } = await db.bulkGet({ docs: [{ id }] })
      assert.ok(results.every(({ docs }) => docs.every((found) => !found.ok)), JSON.stringify(results))
    }
    const outcome = (promise) => promise.then(() => 'ok', (error) => error.status)
    const outcomes = {}
    for (const [name, doc] of Object.entries(tries)) {
      const { _rev } = await db.get(doc._id).catch(() => ({}))
      outcomes[name] = await outcome(db.put({ ...doc, ...(_rev && { _rev }) }))
    }
    for (const id of deletions) outcomes[`delete ${id}`] = await outcome(db.get(id).then((doc) => db.remove(doc)))
    // What was changed offline is refused like what is written at once, and does not stop the rest.
    const offline = Object.keys(tries).filter((name) => outcomes[name] !== 'ok')
    for (const doc of offline.map((name) => tries[name])) {
      const { _rev } = await copy.get(doc._id).catch(() => ({}))
      await copy.put({ ...doc, offline: true, ...(_rev && { _rev }) })
    }
    const refused = []
    await copy.replicate.to(db).on('denied', (error) => refused.push(error.id))
    return { status, seen: seen.map((doc) => doc._id), outcomes, refused: refused.sort() }
  },

  // Many documents travel both ways, and are what they were.
  async many () {
    const count = Number(process.env.COUNT || 10000)
    const source = local('many')
    for (let begin = 0; begin < count; begin += 1000) {
      const docs = []
      for (let number = begin; number < Math.min(count, begin + 1000); number++) {
        docs.push({ _id: `many-${number}`, number, text: crypto.randomBytes(5000).toString('hex') })
      }
      await source.bulkDocs(docs)
    }
    const begun = Date.now()
    const pushed = await replicate(source, remote(), { batch_size: 200 })
    const between = Date.now()
    const target = local('many-target')
    const pulled = await replicate(remote(), target, { batch_size: 200 })
    const ended = Date.now()
    assert.deepStrictEqual([pushed.docs_written, pushed.doc_write_failures], [count, 0])
    assert.ok(pulled.docs_written >= count)
    const contents = async (db) => {
      const listed = await db.allDocs({ startkey: 'many-', endkey: 'many-\uffff', include_docs: true })
      const hash = crypto.createHash('sha256')
      for (const { doc } of listed.rows) hash.update(`${doc._id} ${doc._rev} ${doc.number} ${doc.text}\n`)
      return [listed.rows.length, hash.digest('hex')]
    }
    const expected = await contents(source)
    assert.strictEqual(expected[0], count)
    assert.deepStrictEqual(await contents(target), expected)
    return { push_ms: between - begun, pull_ms: ended - between }
  },

  // Returns the documents IDS as a client has them that replicates, or null for those that it has not.
  async show () {
    const tablet = local('tablet')
    await replicate(remote(), tablet)
    const ids = JSON.parse(process.env.IDS)
    return { docs: await Promise.all(ids.map((id) => tablet.get(id, { attachments: true }).catch(() => null))) }
  },
}

scenes[process.argv[2]]().then(
  (result) => {
    console.log('RESULT ' + JSON.stringify(result))
    process.exit(0)
  },
  (error) => {
    console.error(error.stack || error)
    process.exit(1)
  },
)
