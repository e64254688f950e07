// Messages that are written from right to left, and messages whose subjects and senders try to turn what is beside them, in
// Chromium. Compared are the places at which characters are drawn.
//
// - In lists, each cell stays in its column and its text in its cell; on narrow windows, each cell stays where it is in the row
//   of a plain message.
// - Beside a foreign text in a line, what the page itself says comes behind it and from left to right: sizes behind names of
//   files, positions behind names of folders, addresses behind names.
// - The text of a message, and each field of the composer, has the direction of its content, paragraph by paragraph.

import assert from "node:assert/strict";

import { base, enter, launch } from "./browser.mjs";

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 320, height: 640 };
const HEBREW = "שלום עולם";
const ARABIC = "مرحبا بالعالم";
const browser = await launch();
const page = await enter(await browser.newContext({ bypassCSP: true, viewport: WIDE }));
let compared = 0;

async function follow(name) {
  await page.getByRole("link", { name, exact: true }).first().click();
}

async function press(name) {
  await page.getByRole("button", { name, exact: true }).first().click();
}

// Returns the rows of a list: for each cell its place, and the place of its text.
function rows() {
  return page.$$eval("tbody tr", (all) => all.map((row) => ({
    text: row.textContent,
    cells: [...row.cells].map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const sides = (box) => ({ left: box.left, right: box.right, width: box.width });
      return { ...sides(cell.getBoundingClientRect()), text: sides(range.getBoundingClientRect()) };
    }),
  })));
}

async function checkRows(name) {
  await page.setViewportSize(WIDE);
  const found = await rows();
  for (const row of found) {
    row.cells.forEach((cell, index) => {
      assert.equal(cell.left, found[0].cells[index].left, `${name}: cell ${index} of ${JSON.stringify(row.text)} is in another column`);
      const isInside = cell.text.width === 0 || (cell.text.left >= cell.left - 1 && cell.text.right <= cell.right + 1);
      assert.ok(isInside, `${name}: the text leaves its cell: ${JSON.stringify(row)}`);
      compared += 1;
    });
  }
  await page.setViewportSize(NARROW);
  for (const row of await rows()) {
    const order = await orderInRow(row.text);
    assert.deepEqual(order, [...order].sort((one, other) => one.top - other.top || one.left - other.left), `${name}, narrow: ${JSON.stringify(row.text)}`);
    compared += 1;
  }
  await page.setViewportSize(WIDE);
  return found;
}

// Returns the places of the cells of a row, in the order of its source.
function orderInRow(text) {
  return page.$$eval("tbody tr", (all, wanted) => {
    const row = all.find((one) => one.textContent === wanted);
    const places = [...row.cells].map((cell) => cell.getBoundingClientRect()).filter((box) => box.width > 0);
    return places.map((box) => ({ top: Math.round(box.top), left: Math.round(box.left) }));
  }, text);
}

// Returns the horizontal places of characters, and the lines on which they are, of the first text that matches within an element.
function characters(selector, pattern) {
  return page.$$eval(selector, (elements, source) => {
    for (const element of elements) {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      const found = [];
      for (let node = walker.nextNode(); node; node = walker.nextNode()) for (let at = 0; at < node.length; at += 1) found.push([node, at]);
      const match = new RegExp(source, "u").exec(found.map(([node, at]) => node.data[at]).join(""));
      if (!match) continue;
      return found.slice(match.index, match.index + match[0].length).map(([node, at]) => {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        const box = range.getBoundingClientRect();
        return { character: node.data[at], left: box.left, right: box.right, bottom: Math.round(box.bottom) };
      }).filter((place) => place.right > place.left && place.character.trim());
    }
    return null;
  }, pattern);
}

// Checks that a text which the page says is drawn from left to right, behind the foreign text before it.
async function assertReads(selector, pattern, before) {
  const own = await characters(selector, pattern);
  assert.ok(own?.length, `${pattern} is not in ${selector} of ${page.url()}`);
  own.forEach((place, index) => {
    const last = own[index - 1];
    const isBehind = !last || place.bottom > last.bottom + 5 || place.left >= last.right - 1;
    assert.ok(isBehind, `${pattern} of ${page.url()} is out of order at ${place.character}: ${JSON.stringify(own)}`);
  });
  compared += own.length;
  if (!before) return;
  const foreign = await characters(selector, before);
  assert.ok(foreign?.length, `${before} is not in ${selector} of ${page.url()}`);
  for (const place of foreign) {
    const isBefore = place.bottom < own[0].bottom - 5 || place.right <= own[0].left + 1;
    assert.ok(isBefore, `${pattern} of ${page.url()} does not follow ${before}: ${JSON.stringify([place, own[0]])}`);
  }
}

// Returns the direction of a control, and whether its text begins at the right.
async function directionOf(label) {
  return page.getByLabel(label, { exact: true }).evaluate((element) => getComputedStyle(element).direction);
}

async function checkLists() {
  const found = await checkRows("inbox");
  assert.ok(found.length >= 16, `${found.length} messages`);
  await page.goto(`${base}/lite/search?q=b.test&in=from`);
  assert.ok((await checkRows("search")).length >= 16, "the search finds them");
  await page.goto(`${base}/lite/addresses?q=דוד`);
  await checkRows("addresses");
}

async function checkText(inbox) {
  await page.goto(inbox);
  await follow(`${HEBREW} 2026 (draft)`);
  assert.equal(await page.$eval("h1", (title) => getComputedStyle(title).direction), "rtl", "the title has the direction of the subject");
  const [left, right] = await page.$eval("pre", (text) => {
    const box = text.getBoundingClientRect();
    const style = getComputedStyle(text);
    return [box.left + parseFloat(style.paddingLeft), box.right - parseFloat(style.paddingRight)];
  });
  const first = await characters("pre", HEBREW);
  assert.ok(Math.abs(first[0].right - right) < 2, `a Hebrew line begins at the right: ${first[0].right}, ${right}`);
  const second = await characters("pre", "Latin with");
  assert.ok(Math.abs(second[0].left - left) < 2, `a Latin line begins at the left: ${second[0].left}, ${left}`);
  const third = await characters("pre", ARABIC);
  assert.ok(Math.abs(third[0].right - right) < 2, "an Arabic line begins at the right");
  await assertReads("pre", "https://b\\.test/x\\?y=1");
  await assertReads("dd", "heb@b\\.test");
  await follow("Reply");
  assert.equal(await directionOf("Subject"), "ltr", "a subject with Re: is Latin");
  await page.getByLabel("Subject").fill(HEBREW);
  await page.getByLabel("Text").fill(`${HEBREW}\nLatin`);
  assert.deepEqual([await directionOf("Subject"), await directionOf("Text")], ["rtl", "rtl"]);
  await press("Look up names");
  assert.deepEqual([await directionOf("Subject"), await directionOf("Text")], ["rtl", "rtl"], "also on the page that comes back");
}

async function checkNeighbours(inbox) {
  await page.goto(inbox);
  await follow("Recipients in both directions");
  await assertReads("dd", "one@b\\.test");
  await assertReads("dd", "Carol <carol@b\\.test>", "one@b\\.test");
  await assertReads("dd", "two@b\\.test", "Carol <carol@b\\.test>");
  await page.goto(inbox);
  await follow("Files in both directions");
  await assertReads("[aria-labelledby=files] li", "\\(application/pdf, [0-9]+ B\\)", `${HEBREW}\\.pdf`);
  await assertReads("[aria-labelledby=files] li", "\\(application/octet-stream, [0-9]+ B\\)");
  await follow("Forward");
  await page.goto(inbox);
  await follow(`HTML ${HEBREW}`);
  await follow("Show its own look (HTML)");
  assert.equal(await page.$eval("body", (body) => getComputedStyle(body).direction), "rtl", "a message's own look has the direction of its content");
}

// Subjects and texts that turn: what the page says afterwards is as before.
async function checkTurning(inbox) {
  await page.goto(inbox);
  const subjects = (await page.locator("tbody a").allTextContents()).filter((text) => text.startsWith("Turned by"));
  assert.ok(subjects.length >= 10, `${subjects.length} subjects that turn`);
  for (const subject of subjects) {
    await page.goto(inbox);
    await page.locator("tbody a", { hasText: subject }).first().click();
    await assertReads("h1", "Turned by [a-zA-Z ]*[a-z]");
    await assertReads("pre", "last line");
    await assertReads("dd", "eve@b\\.test");
    await assertReads("legend", "This message");
    await follow("Conversation");
    await assertReads("h1", "Conversation:");
    await assertReads("tbody", "\\(the message you came from\\)");
    await checkRows(`conversation of ${subject}`);
    await follow("Back to the message");
    await follow("Forward");
    await assertReads(".fields label", "Subject");
  }
}

async function checkFolders() {
  await page.goto(`${base}/lite/folders`);
  await page.getByLabel(/New folder/).fill(`${HEBREW} 7`);
  await press("Create");
  await assertReads("[role=status]", "The folder ");
  await assertReads("[role=status]", " was created\\.", `${HEBREW}`);
  await checkRows("folders");
  await follow(`${HEBREW} 7`);
  await assertReads("h1", "no messages", HEBREW);
  await follow("Inbox");
  await page.locator("tbody").getByRole("checkbox").first().check();
  await page.getByLabel("Move to").selectOption({ label: `${HEBREW} 7` });
  await press("Move");
  await assertReads("[role=status]", "1 message was moved to ");
  await follow("Folders");
  await follow(`${HEBREW} 7`);
  await assertReads("h1", "1–1 of 1", HEBREW);
  await page.locator("tbody a").first().click();
  await assertReads("nav.pages", "Back to");
  await page.goto(`${base}/lite/folders`);
  await page.getByLabel("Folder", { exact: true }).selectOption({ label: `${HEBREW} 7` });
  await press("Delete");
  await assertReads("main p", " has 1 messages\\. They are deleted", HEBREW);
}

// A page that turns must be noticed.
async function proveThatTheChecksCanFail() {
  const table = (subject) => `<table><tr><td>a</td><td>plain</td><td>1 of 2</td></tr><tr><td>a</td><td>${subject}</td><td>1 of 2</td></tr></table>`;
  await page.setContent(table("<div style='direction:rtl;width:9em;margin-inline-end:-20em'>turned</div>"));
  await assert.rejects(checkRows("self-test"), assert.AssertionError, "a text outside its cell was not noticed");
  await page.setContent(`<p id="p">${HEBREW}, 1–50 of 51</p>`);
  await assert.rejects(assertReads("#p", "1–50 of 51", HEBREW), assert.AssertionError, "a position beside Hebrew was not noticed");
}

try {
  const inbox = page.url();
  await proveThatTheChecksCanFail();
  await page.goto(inbox);
  await checkLists();
  await checkText(inbox);
  await checkNeighbours(inbox);
  await checkTurning(inbox);
  await checkFolders();
  console.log(`direction: passed (${compared} places compared)`);
} finally {
  await browser.close();
}
