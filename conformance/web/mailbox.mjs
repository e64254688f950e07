// A mailbox of 100,000 messages with forms only, in Chromium with scripts off: first page, last page, search, a page of
// messages moved, all others moved. Prints how long each step took; nothing depends on it. The argument after the program
// of the browser is the number of messages. The oldest one has the word `needle` in its subject.

import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";

import { base, enter, launch, rest } from "./browser.mjs";

const STEP_TIME_MAX_MS = 600_000;
const count = Number(rest[0]);
const shown = (number) => number.toLocaleString("en-US");
const browser = await launch();
const times = [];

async function step(name, act) {
  const before = performance.now();
  await act();
  times.push(`${name} ${Math.round(performance.now() - before)} ms`);
}

async function assertTitle(page, text) {
  assert.match(await page.getByRole("heading", { level: 1 }).textContent(), new RegExp(text));
}

async function search(page) {
  await page.goto(`${base}/lite/search`);
  await page.getByLabel("Words").fill("needle");
  await page.getByRole("button", { name: "Search" }).click();
  const hits = page.locator("tbody tr");
  const further = page.getByRole("link", { name: "Search on in older messages" });
  while (!(await hits.count()) && await further.count()) await further.click();
  assert.equal(await hits.count(), 1, "the search finds the oldest message");
}

async function moveSelected(page) {
  await page.getByLabel("Move to").selectOption({ label: "Projects" });
  await page.getByRole("button", { name: "Move", exact: true }).click();
}

try {
  const page = await enter(await browser.newContext({ javaScriptEnabled: false }));
  page.setDefaultTimeout(STEP_TIME_MAX_MS);
  await page.goto(`${base}/lite/folders`);
  await page.getByLabel(/New folder/).fill("Projects");
  await page.getByRole("button", { name: "Create" }).click();
  await step("list", () => page.goto(`${base}/lite/`));
  await assertTitle(page, `1–50 of ${shown(count)}$`);
  const inbox = page.url();
  await step("last page", () => page.getByRole("link", { name: "Last" }).first().click());
  await assertTitle(page, `–${shown(count)} of ${shown(count)}$`);
  await step("oldest message", () => page.locator("tbody a").last().click());
  await assertTitle(page, "needle");
  await step("search", () => search(page));
  await page.goto(inbox);
  for (const box of await page.locator("tbody").getByRole("checkbox").all()) await box.check();
  await step("page moved", () => moveSelected(page));
  await assertTitle(page, `1–50 of ${shown(count - 50)}$`);
  await page.getByLabel(/^All .* messages of this folder$/).check();
  await step("all others moved", () => moveSelected(page));
  await assertTitle(page, "no messages");
  await page.getByRole("link", { name: "Folders", exact: true }).click();
  await page.getByRole("link", { name: "Projects" }).first().click();
  await assertTitle(page, `1–50 of ${shown(count)}$`);
  console.log(`mailbox: passed (${shown(count)} messages: ${times.join(", ")})`);
} finally {
  await browser.close();
}
