// The request that `sluice check` asks about: as flags, or as JSON from a file or standard input.

import { isIP } from "node:net";
import { Fault } from "#base/fault.ts";
import { splitHostPort } from "#base/net/host-port.ts";
import { nearest } from "#base/text/spelling.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { checkHttpFromJson } from "#wire/check-json/request.ts";
import type { UnknownMember } from "#wire/json/strict.ts";
import type { FlagsOf } from "../flags.ts";
import type { SUBCOMMANDS } from "../subcommands.ts";
import { readSource, type Terminal } from "../terminal.ts";
import { ATTRIBUTE } from "./words.ts";

/** The largest body that an agent accepts. */
const MAX_REQUEST_BYTES = 1024 * 1024;

/** The request as JSON from a file or standard input. Flags of a request beside it are refused, not ignored. */
export async function requestFrom(
  sources: readonly string[],
  flags: readonly string[],
  terminal: Terminal,
): Promise<string> {
  const [source = "-", ...more] = sources;
  if (more.length > 0) {
    throw new Fault("INVALID_ARGUMENT", `check: wanted one FILE, got ${sources.length}`);
  }
  if (flags.length > 0) {
    const got = flags.map((name) => `--${name}`).join(", ");
    throw new Fault(
      "INVALID_ARGUMENT",
      `check: wanted FILE or flags of a request, got FILE and ${got}`,
    );
  }
  const text = await readSource(terminal, source, MAX_REQUEST_BYTES);
  refuseUnknownMembers(text, source === "-" ? "standard input" : source);
  return text;
}

/** An agent ignores unknown members, which newer callers may send. In a check written by hand, one is a misspelling. */
function refuseUnknownMembers(text: string, where: string): void {
  const found: string[] = [];
  const unknown: UnknownMember = (path, known) => {
    const meant = nearest(path.slice(path.lastIndexOf(".") + 1), [...known.keys()]);
    found.push(`${JSON.stringify(path)}${meant === undefined ? "" : ` (did you mean ${meant}?)`}`);
  };
  try {
    checkHttpFromJson(Buffer.from(text), new HeaderNames(Math.random), undefined, unknown);
  } catch (thrown) {
    // The agent reports other faults better, because it knows its own bounds.
    if (!(thrown instanceof Fault)) throw thrown;
  }
  if (found.length === 0) return;
  const wanted = `check: ${where}: wanted members of a CheckHTTPRequest, got ${found.join(", ")}`;
  throw new Fault("INVALID_ARGUMENT", wanted);
}

type RequestFlags = Omit<
  FlagsOf<(typeof SUBCOMMANDS)["check"]["flags"]>,
  "address" | "json" | "ca" | "cert" | "key"
>;

/** The request that flags describe, as JSON. */
export function requestOfFlags(values: RequestFlags): string {
  const headers: Record<string, string> = {};
  for (const header of values.header ?? []) {
    const { name, value } = named("--header", HEADER, header);
    headers[name.toLowerCase()] = value;
  }
  const labels = (values.label ?? []).map((label) => named("--label", LABEL, label));
  const reserved = labels.find(({ name }) => ATTRIBUTE.test(name));
  if (reserved !== undefined) {
    const wanted =
      "a name that baggage may set, which begins neither with http. nor with aperture.";
    throw new Fault("INVALID_ARGUMENT", `--label: wanted ${wanted}, got ${reserved.name}`);
  }
  if (labels.length > 0) {
    // As a service in front would add them: the last member of a name counts.
    const members = labels.map(({ name, value }) => `${name}=${encodeURIComponent(value)}`);
    const given = headers["baggage"];
    headers["baggage"] = [...(given === undefined ? [] : [given]), ...members].join(",");
  }
  const { method = "GET", path = "/", host, body } = values;
  return JSON.stringify({
    control_point: values["control-point"] ?? "ingress",
    ramp_mode: values["ramp-mode"] ?? false,
    expect_end: values["expect-end"] ?? false,
    source: socketOf("--source", values.source),
    destination: socketOf("--destination", values.destination),
    request: { method, path, host, body, headers },
  });
}

/** Names of headers and of members of baggage are tokens (RFC 9110 §5.6.2). */
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[=:]\s*(.*)$/s;
const LABEL = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*)$/s;

function named(flag: string, form: RegExp, text: string): { name: string; value: string } {
  const [, name, value] = form.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return { name, value };
  // The message does not repeat the text: it may be a secret whose = is missing.
  const got = /^[=:]/.test(text)
    ? "one without NAME"
    : !(form === HEADER ? /[=:]/ : /=/).test(text)
      ? "one without ="
      : form === HEADER
        ? "a NAME that no header can have"
        : "a NAME that baggage cannot carry";
  throw new Fault("INVALID_ARGUMENT", `${flag}: wanted NAME=VALUE, got ${got}`);
}

/** One end of the connection of the request. */
function socketOf(flag: string, text: string | undefined) {
  if (text === undefined) return undefined;
  const { host, port } = isIP(text) === 6 ? { host: text, port: "" } : splitHostPort(text);
  const isPort = /^\d{0,5}$/.test(port) && Number(port) <= 65_535;
  if (isIP(host) === 0 || !isPort) {
    const wanted = "an IP address, IPv4:PORT or [IPv6]:PORT";
    throw new Fault("INVALID_ARGUMENT", `${flag}: wanted ${wanted}, got ${JSON.stringify(text)}`);
  }
  return { address: host, port: Number(port) };
}
