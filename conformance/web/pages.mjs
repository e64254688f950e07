// Every page of the lite web mail in every state that looks different, checked for accessibility (`accessibility.mjs`): with
// and without rows, with the errors of forms, with notices and questions, and after the end of the session. `run.py` has filled the mail files of two people:
// the first has messages of all kinds, the second has none and sets up a second step. Its login follows the program of the
// browser. The pages are those of the table in `docs/lite.md`.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";

import { checkPage, proveThatTheChecksCanFail } from "./accessibility.mjs";
import { base, enterAs, launch, login, modules, password, rest } from "./browser.mjs";

const [emptyLogin] = rest;
const CODE_SECONDS = 30;
const browser = await launch();
const checked = [];

async function check(page, name) {
  await checkPage(page, modules, name);
  checked.push(name);
}

async function visit(page, path, name) {
  await page.goto(`${base}${path}`);
  await check(page, name);
}

function press(page, name) {
  return page.getByRole("button", { name, exact: true }).first().click();
}

function follow(page, name) {
  return page.getByRole("link", { name, exact: true }).first().click();
}

async function openFolder(page, name) {
  await page.goto(`${base}/lite/folders`);
  await follow(page, name);
}

async function assertText(page, text) {
  assert.ok((await page.textContent("body")).includes(text), `${page.url()} does not say ${text}`);
}

async function checkLogin(page) {
  await visit(page, "/lite/login", "login");
  await page.getByLabel("Name or address").fill(login);
  await page.getByLabel("Password").fill("wrong");
  await press(page, "Log in");
  await assertText(page, "The name or the password is wrong");
  await check(page, "login, refused");
}

async function checkLists(page) {
  await openFolder(page, "Inbox");
  await check(page, "list");
  const inbox = page.url();
  await page.goto(`${inbox}?sort=subject&order=up`);
  await check(page, "list in another order");
  await press(page, "Mark as read");
  await assertText(page, "Nothing was selected");
  await check(page, "list with a notice");
  await page.getByLabel("(no subject)").check();
  await press(page, "Delete");
  await check(page, "list with an undo");
  await openFolder(page, "Many");
  await check(page, "list, first page");
  await follow(page, "Next");
  await check(page, "list, second page");
  await checkConversationLists(page);
  for (const name of ["Drafts", "Sent", "Empty"]) {
    await openFolder(page, name);
    await check(page, `list ${name}`);
  }
  await assertText(page, "There are no messages here");
  await openFolder(page, "Trash");
  await check(page, "list Trash");
  await press(page, "Empty the trash");
  await check(page, "question before messages are deleted for ever");
  await page.goto(`${base}/lite/folder/4000000000`);
  await check(page, "error of a folder that does not exist");
  return inbox;
}

// The folder "Many" has one conversation, and the inbox one with two messages and others with one.
async function checkConversationLists(page) {
  await openFolder(page, "Many");
  await follow(page, "Show conversations");
  await assertText(page, "1 conversation");
  await check(page, "list of one conversation");
  await openFolder(page, "Inbox");
  await follow(page, "Show conversations");
  await assertText(page, "All messages of the selected conversations in this folder");
  await check(page, "list of conversations");
  await page.getByLabel("Re: Plan").check();
  await press(page, "Flag");
  await assertText(page, "2 messages are flagged.");
  await check(page, "list of conversations with a notice");
  await follow(page, "Subject");
  await check(page, "list of conversations in another order");
  await follow(page, "2 messages");
  await check(page, "conversation of a row");
}

async function checkConfirmation(page, inbox) {
  for (const [subject, text] of [["Confirmation to another address", "but the message came from"], ["Confirmation to an unknown sender", "does not show that it came from there"]]) {
    await page.goto(inbox);
    await follow(page, subject);
    await assertText(page, text);
  }
  await page.goto(inbox);
  await follow(page, "Confirmation wanted");
  await press(page, "Send a confirmation");
  await assertText(page, "The confirmation was sent.");
  assert.equal(await page.getByRole("button", { name: "Send a confirmation" }).count(), 0, "it is offered once");
  await check(page, "message that was confirmed");
}

async function checkMessages(page, inbox) {
  const subjects = await page.goto(inbox).then(() => page.locator("tbody a").allTextContents());
  for (const subject of subjects) {
    await page.goto(inbox);
    await follow(page, subject);
    const address = page.url();
    await check(page, `message ${subject.slice(0, 30)}`);
    for (const [link, name] of [["Show the rest of the text", "long message"], ["Show its own look (HTML)", "own look"], ["Conversation", "conversation"]]) {
      await page.goto(address);
      if (link !== "Conversation" || subject === "Plan") {
        if (await page.getByRole("link", { name: link, exact: true }).count()) {
          await follow(page, link);
          await check(page, `${name} of ${subject.slice(0, 30)}`);
        }
      }
    }
  }
  return subjects;
}

async function checkComposer(page, inbox) {
  await visit(page, "/lite/compose", "composer");
  await press(page, "Send");
  await assertText(page, "The message has no recipients");
  await check(page, "composer, refused");
  await page.getByLabel("To", { exact: true }).fill("Nobody Here, Namesake");
  await press(page, "Look up names");
  await assertText(page, "Nobody is known as");
  await check(page, "composer with names");
  await page.getByLabel("To", { exact: true }).fill(login);
  await page.getByLabel("Subject").fill("A draft");
  const name = `${"attachment with a long name ".repeat(6)}.bin`;
  await page.getByLabel("Add files").setInputFiles({ name, mimeType: "application/octet-stream", buffer: Buffer.alloc(1_000) });
  await press(page, "Save draft");
  await check(page, "composer of a draft with a file");
  for (const [link, subject] of [["Reply", "Plan"], ["Reply to all", "Many recipients"], ["Forward", "With files"]]) {
    await page.goto(inbox);
    await follow(page, subject);
    await follow(page, link);
    await check(page, `composer, ${link}`);
  }
  await page.evaluate(() => document.querySelector("input[name=form]").setAttribute("value", "damaged"));
  await press(page, "Send");
  await assertText(page, "he form is damaged");
  await check(page, "error of a form");
}

async function write(page, subject) {
  await page.getByLabel("To", { exact: true }).fill(login);
  await page.getByLabel("Subject").fill(subject);
}

async function checkUndoOfSending(page) {
  await page.goto(`${base}/lite/settings`);
  await page.getByLabel(/^Seconds in which sending can be undone/).fill("120");
  await press(page, "Save");
  await page.goto(`${base}/lite/compose`);
  const form = await page.locator("input[name=form]").getAttribute("value");
  await write(page, "Withdrawn");
  await press(page, "Send");
  await assertText(page, "The message will be sent in 120 seconds.");
  await check(page, "notice with the undo of sending");
  await press(page, "Undo");
  await assertText(page, "It is a draft again.");
  await check(page, "composer of a message that was withdrawn");
  await page.goto(`${base}/lite/compose`);
  await page.evaluate((old) => document.querySelector("input[name=form]").setAttribute("value", old), form);
  await write(page, "Withdrawn");
  await press(page, "Send");
  await assertText(page, "The message of this form was withdrawn");
  await check(page, "composer, form of a message that was withdrawn");
}

async function checkEndedSession(inbox) {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await enterAs(context, login, password);
  await page.goto(`${base}/lite/compose`);
  await write(page, "Typed before");
  await context.clearCookies();
  await press(page, "Send");
  await assertText(page, "Nothing was sent or saved.");
  await check(page, "composer after the end of the session");
  const [tab] = await Promise.all([context.waitForEvent("page"), follow(page, "Log in in a new tab")]);
  await tab.getByLabel("Name or address").fill(login);
  await tab.getByLabel("Password").fill(password);
  await press(tab, "Log in");
  await tab.getByRole("navigation", { name: "Mail", exact: true }).waitFor();
  await press(page, "Go on with the message");
  await assertText(page, "You have logged in again");
  assert.equal(await page.getByLabel("Subject").inputValue(), "Typed before");
  await check(page, "composer in another session");
  await page.goto(inbox);
  await context.clearCookies();
  await press(page, "Mark as read");
  await assertText(page, "Nothing was changed.");
  await check(page, "login after the end of the session");
  await context.close();
}

async function checkFolders(page) {
  await visit(page, "/lite/folders", "folders");
  await page.getByLabel(/New folder/).fill("Projects/שלום/2026");
  await press(page, "Create");
  await check(page, "folders with a notice");
  await page.getByLabel("Folder", { exact: true }).selectOption({ label: "Projects/שלום/2026" });
  await press(page, "Delete");
  await check(page, "question before a folder is deleted");
  await page.goto(`${base}/lite/folders`);
  await page.getByLabel(/New folder/).fill("Projects");
  await press(page, "Create");
  await check(page, "error of a folder");
}

async function checkSearch(page) {
  await visit(page, "/lite/search", "search");
  await visit(page, "/lite/search?q=nothing-has-these-words", "search without a result");
  await visit(page, "/lite/search?q=message", "search with results");
  await visit(page, `/lite/search?q=${"x".repeat(501)}`, "error of a search");
}

async function checkAddresses(page) {
  await visit(page, "/lite/addresses", "addresses");
  await visit(page, "/lite/addresses?q=ann", "addresses with results");
  await visit(page, "/lite/addresses?q=nobody-has-this-name", "addresses without a result");
  await visit(page, "/lite/addresses?q=namesake", "addresses with more than are shown");
  await assertText(page, "There are more.");
}

async function checkSettings(page) {
  await visit(page, "/lite/settings", "settings");
  const other = await enterAs(await browser.newContext(), login, password);
  await visit(page, "/lite/settings", "settings with several sessions");
  await press(page, "End all other sessions");
  await check(page, "settings with a notice");
  await other.context().close();
  await visit(page, "/lite/settings/security", "security");
  const fill = async (of) => {
    await page.getByLabel(/^Name, for example/).fill("Phone שלום");
    await page.getByLabel(/^IMAP/).check();
    await page.getByRole("group", { name: "New application password" }).getByLabel("Your password").fill(of);
    await press(page, "Make the application password");
  };
  await fill("wrong");
  await assertText(page, "Nothing was changed");
  await check(page, "security, refused");
  await fill(password);
  await check(page, "new application password");
  await visit(page, "/lite/settings/security", "security with application passwords");
}

// Returns the code of a time-based one-time password (RFC 6238).
function codeOf(key, step) {
  const bits = [...key].map((letter) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0")).join("");
  const secret = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const hash = createHmac("sha1", secret).update(counter).digest();
  return String((hash.readUInt32BE(hash[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

async function checkSecondStep(page) {
  await visit(page, "/lite/settings/factor", "second step");
  const send = async (code) => {
    await page.getByLabel("Code", { exact: true }).fill(code);
    await page.getByLabel("Your password").fill(password);
    await press(page, "Turn on the second step");
  };
  const key = (await page.locator("code").textContent()).replaceAll(" ", "");
  const right = () => codeOf(key, Math.floor(Date.now() / 1000 / CODE_SECONDS));
  await send(right() === "000000" ? "000001" : "000000");
  await page.getByRole("alert").waitFor();
  await check(page, "second step, refused");
  await send(right());
  const codes = await page.locator("#made code").allTextContents();
  assert.ok(codes.length > 3, "there are recovery codes");
  await check(page, "recovery codes");
  await visit(page, "/lite/settings/security", "security with a second step");
  await press(page, "Log out");
  await page.getByLabel("Name or address").fill(emptyLogin);
  await page.getByLabel("Password").fill(password);
  await press(page, "Log in");
  await check(page, "second step of the login");
  await page.getByLabel("Code", { exact: true }).fill("000000");
  await press(page, "Continue");
  await check(page, "second step of the login, refused");
  await page.getByLabel("Code", { exact: true }).fill(codes[0]);
  await press(page, "Continue");
  await page.getByRole("navigation", { name: "Mail", exact: true }).waitFor();
}

// A person without messages, and without anything to choose.
async function checkEmpty() {
  const page = await enterAs(await browser.newContext({ bypassCSP: true }), emptyLogin, password);
  await check(page, "list of a new mail file");
  for (const path of ["folders", "search?q=x", "settings"]) await visit(page, `/lite/${path}`, `${path} of a new mail file`);
  await checkSecondStep(page);
}

try {
  const stranger = await browser.newPage({ bypassCSP: true });
  await proveThatTheChecksCanFail(stranger, modules);
  await checkLogin(stranger);
  const page = await enterAs(await browser.newContext({ bypassCSP: true }), login, password);
  const inbox = await checkLists(page);
  const subjects = await checkMessages(page, inbox);
  assert.ok(subjects.length >= 10, `${subjects.length} messages`);
  await checkConfirmation(page, inbox);
  await checkComposer(page, inbox);
  await checkUndoOfSending(page);
  await checkEndedSession(inbox);
  await checkFolders(page);
  await checkSearch(page);
  await checkAddresses(page);
  await checkSettings(page);
  await checkEmpty();
  console.log(`pages: passed (${checked.length} pages)`);
} finally {
  await browser.close();
}
