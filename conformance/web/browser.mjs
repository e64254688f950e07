// What the scripts of this folder share: the browser, the login, and the canary.
//
// A script is called with the address of the server, a login, a password, the folder of the modules and the program of the
// browser. The canary is a server on this machine to which every host name but `localhost` leads: it hears whatever a page
// loads, sends or connects to elsewhere.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import process from "node:process";

export const [base, login, password, modules, program, ...rest] = process.argv.slice(2);
const { chromium } = (await import(`${modules}/playwright-core/index.js`)).default;
const TIME_MAX_MS = 30_000;
// The browser's own services. They lead to the canary, too, and are not counted.
const SERVICES_OF_THE_BROWSER = /\.(google|googleapis|gstatic)\.com/;

// Returns what a connection wants: the first two lines of a request, or the host name in the beginning of TLS.
function wish(bytes) {
  const text = bytes.toString("latin1");
  if (bytes[0] !== 0x16) return text.split("\r\n").slice(0, 2).join(" ").slice(0, 1000);
  return text.match(/[a-z0-9-]+(\.[a-z0-9-]+)*\.(com|test)/)?.[0] ?? "TLS without a known name";
}

// Starts the canary. `heard` has what each connection wants. Without a window, Chromium prepares no connections
// (`preconnect`) and looks up no names in advance, so those are not heard; the tests without a browser look for them.
export async function startCanary() {
  const heard = [];
  const waiting = [];
  const server = createServer((socket) => {
    socket.once("data", (bytes) => {
      const wanted = wish(bytes);
      if (!SERVICES_OF_THE_BROWSER.test(wanted)) heard.push(wanted);
      for (const wake of waiting.splice(0)) wake();
      socket.end("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    socket.on("error", () => {});
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const next = () => new Promise((wake) => waiting.push(wake));
  return { heard, next, port: server.address().port, close: () => server.close() };
}

// Starts the browser. With a canary, all host names but `localhost` lead there.
export function launch(canary) {
  const rules = canary ? [`--host-resolver-rules=MAP * 127.0.0.1:${canary.port}, EXCLUDE localhost`] : [];
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--renderer-process-limit=4", ...rules] });
}

// Opens the web mail and logs in.
export function enter(context) {
  return enterAs(context, login, password);
}

// Opens the web mail and logs somebody in.
export async function enterAs(context, name, secret) {
  const page = await context.newPage();
  page.setDefaultTimeout(TIME_MAX_MS);
  await page.goto(`${base}/lite/login`);
  await page.getByLabel("Name or address").fill(name);
  await page.getByLabel("Password").fill(secret);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation", { name: "Mail", exact: true }).waitFor();
  return page;
}

// Checks that a list has nothing, and shows the beginning of what it has.
export function assertNothing(list, what) {
  assert.equal(list.length, 0, `${what}: ${JSON.stringify(list.slice(0, 5)).slice(0, 2000)} and ${Math.max(0, list.length - 5)} more`);
}
