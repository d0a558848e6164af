// Certificates of the port that expire: refused at the start, never put in the place of a good one, and announced.

import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import type { CertificateSeconds } from "#base/server-meter.ts";
import { ExpiryReminder, expiryOf } from "#serve/tls/expiry.ts";
import { openTlsTerminator } from "#serve/tls/terminator.ts";
import { fakeClock } from "../kit/clock.ts";
import { authority, type Certificate, temporaryFolder } from "../kit/servers/tls.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { memoryMeter, portSettings } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const DAY = 86_400_000;
/** The interval at which the files are examined, ms. */
const LOOK_EVERY_MS = 30_000;

/** TLS with this certificate, on a clock that starts some days from now. */
async function terminator(t: TestContext, { certFile, keyFile }: Certificate, passed = 0) {
  const clock = fakeClock(1_000_000, Date.now() + passed * DAY);
  const log = memoryLog();
  const { meter, certificates } = memoryMeter();
  const opened = openTlsTerminator({
    settings: portSettings({ tls: { enabled: true, cert_file: certFile, key_file: keyFile } }).tls,
    handshakeTimeout: 0,
    clock,
    log,
    meter,
    preferredProtocol: "http1",
    accept: () => undefined,
    refused: () => undefined,
  });
  t.after(() => opened.close());
  const logged = (text: RegExp) => log.lines.filter(({ message }) => text.test(message));
  const days = (what: keyof CertificateSeconds) => () =>
    Math.round((certificates.get(certFile)?.()[what] ?? Number.NaN) / 86_400);
  return { clock, logged, daysLeft: days("left"), lifetimeDays: days("lifetime") };
}

test("a certificate that has expired is refused at the start, with the date", async (t) => {
  const server = authority(temporaryFolder(t), "ca").issue("server", 30);
  await terminator(t, server, 29);
  await assert.rejects(terminator(t, server, 31), (thrown: Error) => {
    assert.match(
      thrown.message,
      /cert_file: wanted a certificate that is still valid, got one that expired on 20/,
    );
    return true;
  });
});

test("an expired certificate never replaces a good one, and the metric stays that of the good one", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const server = ca.issue("server", 30);
  const { clock, logged, daysLeft, lifetimeDays } = await terminator(t, server, 5);
  assert.equal(daysLeft(), 25);
  assert.equal(lifetimeDays(), 30);
  const old = ca.issue("old", 3);
  copyFileSync(old.certFile, server.certFile);
  copyFileSync(old.keyFile, server.keyFile);
  clock.advance(30_000);
  await until("refusal", () => logged(/keeping the current certificates/).length > 0);
  assert.equal(daysLeft(), 25);
  const next = ca.issue("next", 60);
  copyFileSync(next.certFile, server.certFile);
  copyFileSync(next.keyFile, server.keyFile);
  clock.advance(30_000);
  await until("reload", () => logged(/reloaded the certificate/).length > 0);
  assert.equal(daysLeft(), 55);
  assert.equal(lifetimeDays(), 60);
});

test("from 14 days ahead a warning is logged once a day, however often the files are looked at", (t) => {
  const { cert, certFile } = authority(temporaryFolder(t), "ca").issue("server", 90);
  const clock = fakeClock(1_000_000, Date.now() + 75 * DAY);
  const log = memoryLog();
  const reminder = new ExpiryReminder(certFile, clock, log);
  const warnings = () => log.lines.map(({ message }) => message);
  const passDay = () => {
    for (let passed = 0; passed < DAY; passed += LOOK_EVERY_MS) {
      clock.advance(LOOK_EVERY_MS);
      reminder.remind(expiryOf(String(cert)));
    }
  };
  reminder.remind(expiryOf(String(cert)));
  assert.deepEqual(warnings(), []);
  for (let day = 1; day <= 16; day++) {
    passDay();
    assert.equal(warnings().length, day);
  }
  assert.match(warnings()[0] ?? "", /the certificate .*server\.crt expires in 1[34] days$/);
  assert.match(warnings().at(-1) ?? "", /the certificate .*server\.crt has expired$/);
});

test("the warning says how long is left in words that hold", () => {
  const clock = fakeClock();
  const saidAt = (left: number): string => {
    const log = memoryLog();
    new ExpiryReminder("a.crt", clock, log).remind({
      expiresAt: clock.wall() + left,
      lifetime: 90 * DAY,
    });
    return log.lines[0]?.message ?? "";
  };
  const HOUR = 3_600_000;
  assert.equal(saidAt(14 * DAY), "the certificate a.crt expires in 14 days");
  assert.equal(saidAt(2 * DAY), "the certificate a.crt expires in 2 days");
  assert.equal(saidAt(2 * DAY - 1), "the certificate a.crt expires in 47 hours");
  assert.equal(saidAt(2 * HOUR), "the certificate a.crt expires in 2 hours");
  assert.equal(saidAt(2 * HOUR - 1), "the certificate a.crt expires within two hours");
  assert.equal(saidAt(0), "the certificate a.crt has expired");
});

test("a certificate that lives for a week is warned of when a fifth of that is left", () => {
  const clock = fakeClock();
  const isWarnedOf = (left: number) => {
    const log = memoryLog();
    new ExpiryReminder("a.crt", clock, log).remind({
      expiresAt: clock.wall() + left,
      lifetime: 7 * DAY,
    });
    return log.lines.length > 0;
  };
  assert.equal(isWarnedOf(7 * DAY), false, "a new one");
  // The injector replaces its own when a third is left.
  assert.equal(isWarnedOf((7 * DAY) / 3), false);
  assert.equal(isWarnedOf((7 * DAY) / 5), true);
});

test("the port warns when it starts, and when it looks at the files", async (t) => {
  const server = authority(temporaryFolder(t), "ca").issue("server", 90);
  const warnings = ({ logged }: Awaited<ReturnType<typeof terminator>>) =>
    logged(/expires in/).length;
  assert.equal(warnings(await terminator(t, server, 80)), 1);
  const later = await terminator(t, server, 75);
  assert.equal(warnings(later), 0);
  later.clock.advance(DAY + LOOK_EVERY_MS);
  await until("a warning", () => warnings(later) > 0);
});

test("of a chain the first end counts", (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const [long, short] = [ca.issue("long", 30), ca.issue("short", 3)];
  const both = String(long.cert) + String(short.cert);
  assert.deepEqual(expiryOf(both), expiryOf(String(short.cert)));
  assert.equal(expiryOf(both).lifetime, 3 * DAY);
  assert.ok(expiryOf(String(long.cert)).expiresAt > expiryOf(String(short.cert)).expiresAt);
  assert.equal(expiryOf("").expiresAt, Number.POSITIVE_INFINITY);
});
