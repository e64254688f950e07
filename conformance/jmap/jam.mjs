// A day's mail with the npm package jmap-jam. Arguments: the address of the session, a login and a password.
//
// The package sends a token; the server wants a name and a password, so the header field is replaced.

import assert from "node:assert/strict";
import process from "node:process";

const [sessionUrl, login, password, modules] = process.argv.slice(2);
const { default: JamClient } = await import(`${modules}/jmap-jam/dist/index.js`);
const basic = `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`;
const fetchAsIs = globalThis.fetch;
globalThis.fetch = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", basic);
  return fetchAsIs(url, { ...init, headers });
};

const jam = new JamClient({ sessionUrl, bearerToken: "replaced" });
const accountId = await jam.getPrimaryAccount();
const [mailboxes] = await jam.api.Mailbox.get({ accountId });
const withRole = (role) => mailboxes.list.find((mailbox) => mailbox.role === role);
const inbox = withRole("inbox");
assert.ok(inbox && withRole("trash") && withRole("sent") && withRole("drafts"), "the mailboxes with roles");

// A message with a file, put into a mailbox that is made for it.
const file = Buffer.from("Grüße ☕\r\n".repeat(1000));
const uploaded = await jam.uploadBlob(accountId, file, { headers: { "Content-Type": "text/plain; charset=utf-8" } });
assert.equal(uploaded.size, file.length);
const [madeBox] = await jam.api.Mailbox.set({ accountId, create: { box: { name: "Jam", parentId: null } } });
const boxId = madeBox.created.box.id;
const [made] = await jam.api.Email.set({
  accountId,
  create: {
    first: {
      mailboxIds: { [boxId]: true },
      keywords: { $seen: true },
      from: [{ name: "Ann Ölsen", email: login }],
      to: [{ name: null, email: "bob@acme.test" }],
      subject: "Kaffee ☕ am Montag",
      textBody: [{ partId: "1", type: "text/plain" }],
      bodyValues: { 1: { value: "Treffen wir uns?\n" } },
      attachments: [{ blobId: uploaded.blobId, type: "text/plain", name: "Grüße.txt", disposition: "attachment" }],
    },
  },
});
assert.ok(made.created?.first, JSON.stringify(made.notCreated));

// Query and get in one request, with a reference.
const [{ found, emails }] = await jam.requestMany((call) => {
  const found = call.Email.query({ accountId, filter: { inMailbox: boxId, text: "Kaffee" }, calculateTotal: true });
  const emails = call.Email.get({
    accountId,
    ids: found.$ref("/ids"),
    properties: ["id", "threadId", "subject", "from", "textBody", "bodyValues", "attachments", "hasAttachment", "preview", "keywords"],
    fetchTextBodyValues: true,
  });
  return { found, emails };
});
assert.equal(found.total, 1);
const email = emails.list[0];
assert.equal(email.subject, "Kaffee ☕ am Montag");
assert.equal(email.from[0].name, "Ann Ölsen");
assert.equal(email.bodyValues[email.textBody[0].partId].value, "Treffen wir uns?\n");
assert.equal(email.attachments[0].name, "Grüße.txt");
assert.equal(email.hasAttachment, true);
const downloaded = await jam.downloadBlob({
  accountId, blobId: email.attachments[0].blobId, mimeType: "text/plain", fileName: "Grüße.txt",
});
assert.deepEqual(Buffer.from(await downloaded.arrayBuffer()), file);

// Flag, move, see the changes, destroy.
const [state] = await jam.api.Email.get({ accountId, ids: [] });
const [moved] = await jam.api.Email.set({
  accountId,
  ifInState: state.state,
  update: { [email.id]: { "keywords/$flagged": true, [`mailboxIds/${boxId}`]: null, [`mailboxIds/${withRole("trash").id}`]: true } },
});
assert.ok(email.id in moved.updated, JSON.stringify(moved.notUpdated));
const [changes] = await jam.api.Email.changes({ accountId, sinceState: state.state });
assert.deepEqual(changes.updated, [email.id]);
await assert.rejects(jam.api.Email.set({ accountId, ifInState: state.state, destroy: [email.id] }), "the state is an old one");
const [destroyed] = await jam.api.Email.set({ accountId, destroy: [email.id, "unknown"] });
assert.deepEqual(destroyed.destroyed, [email.id]);
assert.equal(destroyed.notDestroyed.unknown.type, "notFound");
const [goneBox] = await jam.api.Mailbox.set({ accountId, destroy: [boxId] });
assert.deepEqual(goneBox.destroyed, [boxId]);
console.log("jmap-jam: passed");
