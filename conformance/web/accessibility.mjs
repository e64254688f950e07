// Checks of a page for people who do not see it as its authors do. They need scripts in the page, so its context must permit
// them (`bypassCSP`); the pages themselves have none.
//
// - axe-core finds no violation of WCAG 2.2 A or AA: in a wide window with light colours, and at 320 pixels with dark ones.
// - At 320 × 256 CSS pixels, which are 400 % of 1,280 × 1,024, nothing is wider than the window (WCAG 1.4.10).
// - With text of twice the size, and with the text spacing of WCAG 1.4.12, nothing is wider than the window or cut off.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const WIDE = { width: 1280, height: 1024 };
const NARROW = { width: 320, height: 256 };
const SPACING = "* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important }"
  + " p { margin-bottom: 2em !important }";
let axe = null;

// Checks a page in the state in which it is. `name` names it in failures.
export async function checkPage(page, modules, name) {
  axe ??= readFileSync(`${modules}/axe-core/axe.min.js`, "utf8");
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "light" });
  await page.evaluate(axe);
  await checkRules(page, `${name}, light`);
  await checkTextSize(page, name);
  await checkSpacing(page, name);
  await page.setViewportSize(NARROW);
  await page.emulateMedia({ colorScheme: "dark" });
  assertFits(await overflow(page), `${name} at 320 × 256`);
  await checkRules(page, `${name}, narrow and dark`);
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "light" });
}

async function checkRules(page, name) {
  const found = await page.evaluate((rules) => globalThis.axe.run(document, { runOnly: rules }), RULES);
  const violations = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(violations, [], name);
  assert.ok(found.passes.length > 3, `${name}: axe-core has applied ${found.passes.length} rules only`);
}

// The setting of the browser for large text changes the size of text alone.
async function checkTextSize(page, name) {
  const sizes = () => page.$$eval("body, body *", (all) => all.map((element) => parseFloat(getComputedStyle(element).fontSize)));
  const doubled = (await sizes()).map((size) => 2 * size);
  const session = await page.context().newCDPSession(page);
  try {
    await session.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
    assert.deepEqual(await sizes(), doubled, `${name}: some text does not grow with the setting of the browser`);
    for (const viewport of [WIDE, { width: 640, height: 512 }]) {
      await page.setViewportSize(viewport);
      assertFits(await overflow(page), `${name} with text of 200 % in ${viewport.width} pixels`);
    }
  } finally {
    await page.setViewportSize(WIDE);
    await session.send("Page.setFontSizes", { fontSizes: { standard: 16, fixed: 13 } });
    await session.detach();
  }
}

async function checkSpacing(page, name) {
  const style = await page.addStyleTag({ content: SPACING });
  for (const viewport of [WIDE, NARROW]) {
    await page.setViewportSize(viewport);
    assertFits(await overflow(page), `${name} with wide text spacing in ${viewport.width} pixels`);
  }
  await style.evaluate((element) => element.remove());
}

function assertFits(found, name) {
  assert.deepEqual(found, { width: 0, outside: [], cut: [] }, name);
}

// Returns by how many pixels the document is too wide, the elements that reach out of the window, and those that cut their
// content off. Tables may scroll in an element of their own. What is hidden on purpose is small and clipped.
function overflow(page) {
  return page.evaluate(() => {
    const root = document.documentElement;
    const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
    const isHidden = (element) => getComputedStyle(element).clipPath !== "none" || element.classList.contains("skip");
    const has = (element, test) => {
      for (let at = element; at && at !== root; at = at.parentElement) if (test(at)) return true;
      return false;
    };
    const named = (element) => element.outerHTML.slice(0, 120);
    const shown = [...document.body.querySelectorAll("*")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width > 0 && box.height > 0 && !has(element, isHidden);
    });
    const outside = shown.filter((element) => {
      const box = element.getBoundingClientRect();
      return (box.right > root.clientWidth + 1 || box.left < -1) && !has(element.parentElement, scrolls);
    });
    const cut = shown.filter((element) => {
      const style = getComputedStyle(element);
      const isControl = ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName);
      return !isControl && style.overflowX === "hidden" && element.scrollWidth > element.clientWidth + 1;
    });
    const width = Math.max(0, root.scrollWidth - root.clientWidth, document.body.scrollWidth - root.clientWidth);
    return { width, outside: outside.map(named), cut: cut.map(named) };
  });
}

// Checks that the checks notice a page that is bad in each way.
export async function proveThatTheChecksCanFail(page, modules) {
  const bad = {
    "1280": "<p>x</p><p style='width:1400px'>too wide</p>",
    "320 × 256": "<p>x</p><table><tr><td style='min-width:400px'>too wide for 320</td></tr></table>",
    "200 %": "<p style='font-size:16px'>of a fixed size</p>",
    "image-alt": "<p>x</p><img src='data:,'>",
    "color-contrast": "<p style='color:#ccc;background:#fff'>of low contrast</p>",
    "spacing": "<p>x</p><p style='width:11.5em;overflow:hidden;white-space:nowrap'>cut off if it is spaced</p>",
  };
  for (const [what, html] of Object.entries(bad)) {
    const frame = "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>x</title><main><h1>x</h1>";
    await page.setContent(`${frame}${html}</main></html>`);
    await assert.rejects(checkPage(page, modules, "self-test"), assert.AssertionError, `a page with bad ${what} was not noticed`);
  }
}
