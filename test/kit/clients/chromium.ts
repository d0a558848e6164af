// Opens a page in a real, headless Chromium.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { chromium as installed } from "../../../deploy/tools/install.ts";
import { type Child, child } from "../servers/child.ts";

/** The name that the browser resolves to 127.0.0.1, as the owner of a domain can arrange for any browser. */
export const REBOUND = "rebound.example";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-breakpad",
  "--disable-crash-reporter",
];

/** The browser runs until the test ends, with a profile of its own. */
export function openPage(test: TestContext, url: string): Child {
  const profile = mkdtempSync(join(tmpdir(), "sluice-chromium-"));
  const resolver = `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`;
  const own = child(test, installed(), [
    ...FLAGS,
    resolver,
    `--user-data-dir=${profile}`,
    // Keeps the page open until the test ends.
    "--remote-debugging-port=0",
    url,
  ]);
  test.after(async () => {
    own.kill();
    await own.ended;
    // Its other processes may write for a moment after the first one has ended.
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });
  return own;
}
