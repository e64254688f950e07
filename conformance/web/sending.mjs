// Somebody who sends while the server is killed, in Chromium with scripts off. The words come from `run.py`, one a line, and
// each is answered with one line:
//
//   write SUBJECT   writes a message, saves it as a draft, and changes it
//   send            presses "Send" and does not wait
//   look            tells whether the answer said that the message was sent
//   again SUBJECT   if there is a draft with this subject, opens it and sends it

import process from "node:process";
import { createInterface } from "node:readline";

import { base, enter, launch, rest } from "./browser.mjs";

const [recipient] = rest;
const browser = await launch();
const page = await enter(await browser.newContext({ javaScriptEnabled: false }));
let pressed = null;

async function write(subject) {
  await page.goto(`${base}/lite/compose`);
  await page.getByLabel("To", { exact: true }).fill(recipient);
  await page.getByLabel("Subject").fill(subject);
  await page.getByLabel("Text").fill("a draft");
  const file = { name: "a.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(50_000, subject) };
  await page.getByLabel("Add files").setInputFiles(file);
  await page.getByRole("button", { name: "Save draft" }).click();
  await page.getByText("The draft was saved.").waitFor();
  await page.getByLabel("Text").fill("the text that is sent");
  return "written";
}

async function wasSent() {
  return await page.getByText("The message was sent.").count() > 0;
}

async function send() {
  pressed = page.getByRole("button", { name: "Send", exact: true }).click().then(wasSent, () => false);
  return "pressed";
}

async function again(subject) {
  await page.goto(`${base}/lite/folders`);
  const drafts = page.getByRole("link", { name: "Drafts", exact: true }).first();
  if (!(await drafts.count())) return "no draft";
  await drafts.click();
  const draft = page.locator("tbody").getByRole("link", { name: subject, exact: true });
  if (!(await draft.count())) return "no draft";
  await draft.first().click();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  return `sent again: ${(await page.getByRole("status").textContent()).trim()}`;
}

const COMMANDS = { write, send, look: async () => (await pressed ? "sent" : "no answer"), again };

try {
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, ...more] = line.split(" ");
    console.log(await COMMANDS[word](more.join(" ")));
  }
} finally {
  await browser.close();
}
