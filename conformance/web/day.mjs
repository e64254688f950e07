// A day's mail in Chromium with scripts off, at the lite web mail. Then the size of every page is checked; `pages.mjs` checks
// accessibility. Arguments: the address of the server, a login, a password, the folder of the modules, the program of the
// browser.

import assert from "node:assert/strict";
import process from "node:process";

const [base, login, password, modules, browserProgram] = process.argv.slice(2);
const { chromium } = (await import(`${modules}/playwright-core/index.js`)).default;
const COMPRESSED_PAGE_BYTES_MAX = 15 * 1024;

const browser = await chromium.launch({ executablePath: browserProgram, args: ["--no-sandbox"] });
const foreign = [];
const seen = new Set();

async function open(options) {
  const context = await browser.newContext(options);
  context.on("request", (request) => {
    if (!request.url().startsWith(base)) foreign.push(request.url());
  });
  return context;
}

async function enter(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  await page.goto(`${base}/`);
  await page.getByLabel("Name or address").fill(login);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  return page;
}

function menu(page, name) {
  return page.getByRole("navigation", { name: "Mail", exact: true }).getByRole("link", { name, exact: true });
}

function note(page) {
  seen.add(page.url());
}

async function playDay() {
  const context = await open({ javaScriptEnabled: false });
  const page = await enter(context);
  note(page);

  // Write to oneself, with a file.
  await menu(page, "Write").click();
  note(page);
  await page.getByLabel("To", { exact: true }).fill(login);
  await page.getByLabel("Subject").fill("Kaffee ☕ <b>am</b> Montag");
  await page.getByLabel("Text").fill("Treffen wir uns?\nبعد الظهر");
  const file = { name: "Grüße.csv", mimeType: "text/csv", buffer: Buffer.from("1,2\r\n3,4\r\n") };
  await page.getByLabel("Add files").setInputFiles(file);
  await page.getByRole("button", { name: "Send", exact: true }).click();

  // Read it, and its file.
  await menu(page, "Inbox").click();
  note(page);
  await page.getByRole("link", { name: "Kaffee ☕ <b>am</b> Montag" }).first().click();
  note(page);
  assert.match(await page.textContent("pre"), /Treffen wir uns\?/);
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Grüße.csv" }).click();
  const saved = await (await download).createReadStream();
  assert.equal((await saved.toArray()).join(""), "1,2\r\n3,4\r\n");

  // Answer, and delete with an undo.
  await page.getByRole("link", { name: "Reply", exact: true }).click();
  note(page);
  assert.match(await page.getByLabel("Text").inputValue(), /^> Treffen wir uns\?/m);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await menu(page, "Inbox").click();
  const rows = page.locator("tbody tr");
  const before = await rows.count();
  assert.ok(before >= 2, "the message and its answer");
  await rows.first().getByRole("checkbox").check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  assert.equal(await rows.count(), before - 1);
  await page.getByRole("button", { name: "Undo" }).click();
  assert.equal(await rows.count(), before);

  // File one, and search.
  await menu(page, "Folders").click();
  note(page);
  await page.getByLabel(/New folder/).fill("Projects");
  await page.getByRole("button", { name: "Create" }).click();
  await menu(page, "Inbox").click();
  await rows.first().getByRole("checkbox").check();
  await page.getByLabel("Move to").selectOption({ label: "Projects" });
  await page.getByRole("button", { name: "Move", exact: true }).click();
  assert.equal(await rows.count(), before - 1);
  await menu(page, "Search").click();
  await page.getByLabel("Words").fill("treffen");
  await page.getByRole("button", { name: "Search" }).click();
  note(page);
  assert.ok((await rows.count()) >= 2, "the search finds both");
  await menu(page, "Addresses").click();
  note(page);
  await menu(page, "Settings").click();
  note(page);
  return context;
}

async function checkSizes(of) {
  const context = await open();
  await context.addCookies(await of.cookies());
  const page = await context.newPage();
  for (const address of seen) {
    const response = await page.goto(address);
    const sizes = await response.request().sizes();
    assert.ok(sizes.responseBodySize <= COMPRESSED_PAGE_BYTES_MAX, `${address} has ${sizes.responseBodySize} bytes`);
  }
}

try {
  const context = await playDay();
  await checkSizes(context);
  const page = await context.newPage();
  await page.goto(`${base}/lite/`);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto(`${base}/lite/`);
  assert.equal(await page.getByRole("button", { name: "Log in" }).count(), 1, "the session has ended");
  assert.deepEqual(foreign, [], "requests to other hosts");
  console.log(`chromium: passed (${seen.size} pages checked)`);
} finally {
  await browser.close();
}
