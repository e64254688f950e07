// The corpus of hostile messages in Chromium, with scripts on so that a hole shows. All messages are in the inbox. Each is
// opened in every form: text, its own look, reply, forward, source, images. Its own look is opened once with
// and once without the Content Security Policy, so that the sanitizer must hold alone.
//
// The canary hears nothing, no script runs (a dialog is the marker), the console is silent (Chromium reports there what a
// policy has stopped), no page navigates by itself or opens another one, and no file is saved unasked.

import assert from "node:assert/strict";

import { assertNothing, base, enter, launch, startCanary } from "./browser.mjs";

const WORKERS = 2;
const canary = await startCanary();
const browser = await launch(canary);
const found = { scripts: [], console: [], navigations: [], pages: [], downloads: [], requests: [] };

// Watches what the pages of a context do by themselves.
function watch(context, expected) {
  context.on("dialog", async (dialog) => {
    found.scripts.push(`${dialog.page()?.url()}: ${dialog.message()}`);
    await dialog.dismiss();
  });
  context.on("console", (message) => found.console.push(`${message.page()?.url()}: ${message.text()}`));
  context.on("request", (request) => {
    if (!request.url().startsWith(`${base}/`) && !request.url().startsWith("data:")) found.requests.push(request.url());
  });
  context.on("page", (page) => {
    if (!expected.isOpening) found.pages.push(page.url());
    page.on("framenavigated", (frame) => {
      if (frame.url() !== "about:blank" && !expected.addresses.has(frame.url())) found.navigations.push(frame.url());
    });
    page.on("download", (download) => found.downloads.push(download.url()));
  });
}

async function newTab(context, expected) {
  expected.isOpening = true;
  const page = await context.newPage();
  expected.isOpening = false;
  return page;
}

// A page that is as hostile as can be must be noticed by everything that watches.
async function proveThatTheCheckCanFail() {
  const expected = { addresses: new Set(), isOpening: true };
  const context = await browser.newContext();
  watch(context, expected);
  const page = await context.newPage();
  expected.isOpening = false;
  const heard = canary.next();
  const popup = context.waitForEvent("page");
  await page.setContent(`<img src="http://self.canary.test/1"><link rel=prefetch href="http://other.canary.test/">
    <a href="x" download="x" id="a">x</a>
    <script>alert(1); console.log("marker"); open("about:blank#popup"); location.hash = "moved";</script>`);
  await Promise.all([heard, popup]);
  await context.close();
  for (const [what, list] of Object.entries(found)) {
    if (what !== "downloads") assert.notEqual(list.length, 0, `the self-test was not noticed by ${what}`);
    list.length = 0;
  }
  assert.ok(canary.heard.some((line) => line.includes("self.canary.test")), `the canary has heard ${canary.heard}`);
  canary.heard.length = 0;
}

async function addressesOfMessages(page) {
  const messages = [];
  for (;;) {
    messages.push(...await page.$$eval("tbody a", (links) => links.map((link) => link.href)));
    const next = page.getByRole("link", { name: "Next", exact: true }).first();
    if (!(await next.count())) return messages;
    await next.click();
  }
}

async function visit(page, expected, address) {
  expected.addresses.add(address);
  const response = await page.goto(address);
  assert.equal(response.status(), 200, address);
  assert.equal(page.url(), address, "the page has moved");
}

// Opens a message in every form. Each tab has pages of one kind, for which Chromium needs no new process.
async function openMessage(address, tabs, expected, context) {
  const { page, sandbox, open } = tabs;
  await visit(page, expected, address);
  const files = await page.$$eval('[aria-labelledby="files"] a', (links) => links.map((link) => link.href));
  const hasLook = await page.getByRole("link", { name: "Show its own look (HTML)" }).count();
  const [folder, uid] = address.split("/").slice(-2);
  for (const kind of ["reply", "forward"]) await visit(page, expected, `${base}/lite/compose?${kind}=${folder}.${uid}`);
  await visit(sandbox, expected, `${address}/raw`);
  if (hasLook) {
    await visit(sandbox, expected, `${address}/html`);
    await visit(open, expected, `${address}/html`);
    // Two frames, so that animations and things that happen "at once" have begun, and a pointer and a key for others.
    await open.mouse.move(30, 30);
    await open.keyboard.press("Tab");
    await open.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  for (const file of files) await openFile(file, open, expected, context);
}

async function openFile(file, look, expected, context) {
  if (file.includes("?show")) {
    await visit(look, expected, file);
    return;
  }
  const response = await context.request.get(file);
  const fields = response.headers();
  assert.equal(response.status(), 200, file);
  assert.match(fields["content-disposition"], /^attachment;/, file);
  assert.equal(fields["x-content-type-options"], "nosniff", file);
  assert.match(fields["content-security-policy"], /^sandbox; default-src 'none'/, file);
}

async function openAll() {
  const expected = { addresses: new Set(), isOpening: true };
  const context = await browser.newContext();
  const entered = await enter(context);
  const open = await browser.newContext({ bypassCSP: true, storageState: await context.storageState() });
  const messages = await addressesOfMessages(entered);
  watch(context, expected);
  watch(open, expected);
  const waiting = [...messages];
  const openWaiting = async (tabs) => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await openMessage(next, tabs, expected, context);
  };
  const workers = [];
  for (let number = 0; number < WORKERS; number += 1) {
    const tabs = { page: await newTab(context, expected), sandbox: await newTab(context, expected), open: await newTab(open, expected) };
    workers.push(openWaiting(tabs));
  }
  await Promise.all(workers);
  const page = await newTab(context, expected);
  for (const words of ["hostile", "script", "alert", "%22%3E%3Csvg"]) {
    await visit(page, expected, `${base}/lite/search?q=${words}`);
  }
  for (let number = 1; number <= Math.ceil(messages.length / 50); number += 1) {
    await visit(page, expected, `${messages[0].replace(/\/[0-9]+$/, "")}?page=${number}`);
  }
  return { messages: messages.length, pages: expected.addresses.size };
}

try {
  await proveThatTheCheckCanFail();
  const opened = await openAll();
  for (const [what, list] of Object.entries(found)) assertNothing(list, what);
  assertNothing(canary.heard, "the canary has heard");
  assert.ok(opened.messages >= 60, `${opened.messages} messages in the inbox`);
  console.log(`hostile: passed (${opened.messages} messages, ${opened.pages} pages)`);
} finally {
  await browser.close();
  canary.close();
}
