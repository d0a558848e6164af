// A crash as an envelope of the Sentry protocol, without anything that callers sent or that the configuration hides.

import { basename } from "node:path";
import { Fault } from "#base/fault.ts";

/** A line of the log before the crash. */
export interface Breadcrumb {
  /** Unix ms. */
  readonly at: number;
  readonly level: "info" | "warning" | "error";
  readonly component: string;
  readonly message: string;
}

export interface Crash {
  /** The cause of the crash, such as `uncaught exception`. */
  readonly message: string;
  readonly cause: unknown;
  /** Unix ms. */
  readonly at: number;
  /** 32 hexadecimal digits. */
  readonly id: string;
  readonly breadcrumbs: readonly Breadcrumb[];
}

export interface Origin {
  /** Name of the service. */
  readonly service: string;
  readonly version: string;
  readonly environment: string;
  readonly withStack: boolean;
  readonly scrub: (text: string) => string;
}

/** The destination that a DSN names. */
export interface Destination {
  readonly url: string;
  readonly key: string;
}

/** @throws Fault INVALID_ARGUMENT, which repeats nothing of the DSN */
export function destinationOf(dsn: string): Destination {
  const url = URL.parse(dsn);
  const [, path = "", project = ""] = /^(.*)\/(\w+)$/.exec(url?.pathname ?? "") ?? [];
  if (url === null || url.username === "" || project === "") {
    const wanted = "wanted https://KEY@HOST/PROJECT, got another form";
    throw new Fault("INVALID_ARGUMENT", `crashreport.dsn: ${wanted}`);
  }
  return { url: `${url.origin}${path}/api/${project}/envelope/`, key: url.username };
}

export function envelopeOf(crash: Crash, origin: Origin): string {
  const { id, at } = crash;
  const event = JSON.stringify(eventOf(crash, origin));
  const head = JSON.stringify({ event_id: id, sent_at: new Date(at).toISOString() });
  const item = JSON.stringify({ type: "event", length: Buffer.byteLength(event) });
  return `${head}\n${item}\n${event}\n`;
}

function eventOf({ message, cause, at, id, breadcrumbs }: Crash, origin: Origin): object {
  const { service, version, environment, withStack, scrub } = origin;
  const error = cause instanceof Error ? cause : undefined;
  const exception = {
    type: error?.name ?? "Error",
    value: scrub(error?.message ?? message),
    ...(withStack && error !== undefined && { stacktrace: { frames: framesOf(error) } }),
  };
  return {
    event_id: id,
    timestamp: at / 1_000,
    platform: "node",
    level: "fatal",
    logger: service,
    release: `sluice@${version}`,
    environment,
    message: { formatted: message },
    exception: { values: [exception] },
    breadcrumbs: {
      values: breadcrumbs.map((line) => ({
        timestamp: line.at / 1_000,
        level: line.level,
        category: line.component,
        message: scrub(line.message),
      })),
    },
    contexts: { runtime: { name: "node", version: process.version } },
  };
}

const FRAME = /^\s*at (?:(.*) \()?((?:file:|node:|\/).*?):(\d+):(\d+)\)?$/;

/** The frames of the stack, the innermost last. Of files, only the part inside a source tree is named. */
function framesOf({ stack = "" }: Error): readonly object[] {
  return stack
    .split("\n")
    .flatMap((line) => {
      const [, name = "<anonymous>", file = "", row, column] = FRAME.exec(line) ?? [];
      if (file === "") return [];
      const own = /\/(src\/.*)$/.exec(file)?.[1];
      const filename = own ?? (file.startsWith("node:") ? file : basename(file));
      const place = { filename, lineno: Number(row), colno: Number(column) };
      return [{ function: name, ...place, in_app: own !== undefined }];
    })
    .reverse();
}
