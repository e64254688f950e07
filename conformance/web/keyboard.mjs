// A day's mail with a keyboard alone, in Chromium with scripts off: Tab, Shift+Tab, Enter, Space and letters. Nothing is
// clicked; locators only say whether the element with the focus is the wanted one. Only attaching a file is left out, because
// the window in which one is chosen is the browser's.
//
// On each page, Tab goes through everything that can be operated, once and in the order of the page, and leaves the page at
// its end; Shift+Tab goes back. Each element with the focus looks different from before, has an outline with a contrast of at
// least 3 : 1 (WCAG 2.4.7, 1.4.11), and is in the window (2.4.11).

import assert from "node:assert/strict";

import { base, launch, login, password } from "./browser.mjs";

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 320, height: 256 };
const TIME_MAX_MS = 30_000;
const CONTRAST_MIN = 3;
const SUBJECT = "Lunch on Monday";
const browser = await launch();
const page = await (await browser.newContext({ javaScriptEnabled: false, viewport: WIDE })).newPage();
page.setDefaultTimeout(TIME_MAX_MS);
let stops = 0;

// Returns the looks of everything that can be operated, in the order of the page, and which of them has the focus.
function look() {
  return page.evaluate(() => {
    const all = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
    const elements = [...document.querySelectorAll(all)];
    const channels = (text) => text.match(/[\d.]+/g).map(Number);
    const light = (text) => {
      const [red, green, blue] = channels(text).map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const background = (element) => {
      for (let at = element.parentElement; at; at = at.parentElement) {
        const color = getComputedStyle(at).backgroundColor;
        if ((channels(color)[3] ?? 1) === 1) return color;
      }
      return "rgb(255, 255, 255)";
    };
    const of = (element) => {
      const style = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      const [one, other] = [light(style.outlineColor), light(background(element))];
      return {
        html: element.outerHTML.slice(0, 160),
        shape: `${style.outlineStyle} ${style.outlineWidth} ${style.outlineColor} ${style.boxShadow}`,
        outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
        contrast: (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05),
        // Of a large field, the browser shows the part with the cursor.
        isShown: box.width > 0 && box.left >= -1 && box.right <= innerWidth + 1
          && Math.min(box.bottom, innerHeight) - Math.max(box.top, 0) >= Math.min(box.height, 20) - 1,
      };
    };
    return { focused: elements.indexOf(document.activeElement), looks: elements.map(of) };
  });
}

// Goes through a page with a key until the focus leaves it. Returns the order of the elements.
async function walk(key, before, name) {
  const order = [];
  // The walk before may have ended behind the page, or at its other end.
  let isBefore = true;
  for (;;) {
    await page.keyboard.press(key);
    const { focused, looks } = await look();
    if (focused < 0 && isBefore) {
      isBefore = false;
      continue;
    }
    isBefore = false;
    if (focused < 0 || focused === order[0]) return order;
    assert.ok(order.length < before.length, `${name}: ${key} does not leave the page: ${order}`);
    order.push(focused);
    const seen = looks[focused];
    assert.notEqual(seen.shape, before[focused].shape, `${name}: the focus is not visible at ${seen.html}`);
    assert.ok(seen.outline >= 2 && seen.contrast >= CONTRAST_MIN, `${name}: outline of ${seen.outline} pixels, contrast ${seen.contrast} at ${seen.html}`);
    assert.ok(seen.isShown, `${name}: the focus is outside the window at ${seen.html}`);
    stops += 1;
  }
}

// Checks that the keys go through a page.
async function checkWalk(name) {
  for (const viewport of [WIDE, NARROW]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.reload();
      const before = (await look()).looks;
      const forth = before.map((_, index) => index);
      assert.deepEqual(await walk("Tab", before, name), forth, `${name}: Tab`);
      if (colorScheme === "light") assert.deepEqual(await walk("Shift+Tab", before, name), forth.toReversed(), `${name}: Shift+Tab`);
    }
  }
  await page.setViewportSize(WIDE);
}

// Presses a key until the wanted element has the focus.
async function focus(role, name, key = "Tab") {
  const wanted = page.getByRole(role, { name, exact: true });
  const hasFocus = () => wanted.evaluateAll((elements) => elements.includes(document.activeElement));
  const count = (await look()).looks.length;
  for (let pressed = 0; !(await hasFocus()); pressed += 1) {
    assert.ok(pressed <= count + 1, `${page.url()}: ${key} does not reach the ${role} ${name}`);
    await page.keyboard.press(key);
  }
}

// Presses a key that leads to another page, and waits for that.
async function leave(key = "Enter") {
  const isThere = page.waitForNavigation();
  await page.keyboard.press(key);
  await isThere;
}

async function follow(name) {
  await focus("link", name);
  await leave();
}

async function type(name, text) {
  await focus("textbox", name);
  await page.keyboard.type(text);
}

async function press(name, key = "Enter") {
  await focus("button", name);
  await leave(key);
}

async function assertNotice(text) {
  assert.match(await page.getByRole("status").textContent(), text);
}

async function logIn() {
  await page.goto(`${base}/`);
  await checkWalk("login");
  await page.reload();
  await page.keyboard.press("Tab");
  assert.equal(await page.locator(":focus").textContent(), "Skip to the content");
  await leave();
  await page.keyboard.press("Tab");
  assert.equal(await page.locator(":focus").getAttribute("id"), "name", "the link skips to the content");
  await page.keyboard.type(login);
  await type("Password", password);
  await leave();
  assert.match(await page.textContent("h1"), /^Inbox/);
}

async function write() {
  await follow("Write");
  await checkWalk("composer");
  await type("To", login);
  await type("Subject", "Lunch");
  await focus("textbox", "Text");
  await page.keyboard.type("Shall we meet?");
  await page.keyboard.press("Enter");
  await page.keyboard.type("At noon.");
  await focus("textbox", "Subject", "Shift+Tab");
  await page.keyboard.press("End");
  await page.keyboard.type(" on Monday");
  await press("Send");
  await assertNotice(/The message was sent\./);
}

async function read() {
  await follow("Inbox");
  await checkWalk("list");
  await follow(SUBJECT);
  assert.equal((await page.textContent("pre")).trimEnd(), "Shall we meet?\nAt noon.");
  await checkWalk("message");
}

async function answer() {
  await follow("Reply");
  await focus("textbox", "Text");
  await page.keyboard.type("Gladly.");
  assert.match(await page.locator(":focus").inputValue(), /^Gladly\.\n*On .* wrote:\n> Shall we meet\?/, "the answer begins above the quotation");
  await press("Send", "Space");
  await assertNotice(/The message was sent\./);
}

async function file() {
  await checkWalk("folders");
  await type("New folder (levels are separated by /)", "Projects");
  await leave();
  await assertNotice(/The folder Projects was created\./);
  await follow("Inbox");
  const rows = page.locator("tbody tr");
  const count = await rows.count();
  await focus("checkbox", SUBJECT);
  await page.keyboard.press("Space");
  await focus("combobox", "Move to");
  await page.keyboard.type("Projects");
  await press("Move");
  await assertNotice(/1 message was moved to Projects\./);
  assert.equal(await rows.count(), count - 1);
  await focus("checkbox", `Re: ${SUBJECT}`);
  await page.keyboard.press("Space");
  await press("Delete", "Space");
  await assertNotice(/1 message was moved to Trash\./);
  assert.equal(await rows.count(), count - 2);
  await checkWalk("list with an undo");
  await press("Undo");
  await assertNotice(/1 message was moved to Inbox\./);
  assert.equal(await rows.count(), count - 1);
}

async function search() {
  await follow("Search");
  await type("Words", "noon");
  await leave();
  assert.ok(await page.locator("tbody tr").count() >= 2, "the search finds the message and its answer");
  await checkWalk("search");
}

// A page without a visible focus, and one that keeps the focus, must be noticed.
async function proveThatTheChecksCanFail() {
  const bad = {
    "no outline": "<style>*{outline:none!important}</style><a href='/'>x</a>",
    "a faint outline": "<style>*:focus{outline:3px solid #eee!important}</style><a href='/'>x</a>",
    "another order": "<a href='/' tabindex='2'>x</a><a href='/y' tabindex='1'>y</a>",
    "something that cannot be reached": "<a href='/'>x</a><a href='/y' tabindex='-1'>y</a>",
  };
  for (const [what, html] of Object.entries(bad)) {
    await page.route("**/self-test", (route) => route.fulfill({ contentType: "text/html", body: `<!DOCTYPE html><html><body>${html}</body></html>` }));
    await page.goto(`${base}/self-test`);
    await assert.rejects(checkWalk("self-test"), assert.AssertionError, `${what} was not noticed`);
    await page.unroute("**/self-test");
  }
  await page.setViewportSize(WIDE);
}

try {
  await proveThatTheChecksCanFail();
  await logIn();
  await write();
  await read();
  await answer();
  await file();
  await search();
  for (const name of ["Addresses", "Settings", "Application passwords and second step of the login"]) {
    await follow(name);
    await checkWalk(name);
  }
  await press("Log out");
  assert.equal(await page.textContent("h1"), "Log in");
  await page.goto(`${base}/lite/`);
  assert.equal(await page.textContent("h1"), "Log in", "the session has ended");
  console.log(`keyboard: passed (${stops} stops of the focus)`);
} finally {
  await browser.close();
}
