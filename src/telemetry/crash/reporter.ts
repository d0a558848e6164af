// Reports a crash of the process to the destination that `crashreport.dsn` names. Until then it only remembers the last
// lines of the log.

import { type Chance, uuid } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import { HttpClient } from "#client/http.ts";
import type { Environment, HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import { type Breadcrumb, destinationOf, envelopeOf } from "./envelope.ts";
import { scrubber } from "./scrub.ts";

/** `crashreport.*` of the configuration. */
export interface CrashReportSettings {
  readonly attach_stack_trace: boolean;
  /** Log what the reporter does. */
  readonly debug: boolean;
  readonly disabled: boolean;
  /** Empty: nothing is reported. */
  readonly dsn: string;
  readonly environment: string;
  readonly sample_rate: number;
}

interface CrashReporterOptions {
  readonly settings: CrashReportSettings;
  readonly proxy: ProxySettings;
  readonly env: Environment;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
  readonly service: string;
  readonly version: string;
  /** The values of all keys that are secret. */
  readonly secrets: () => Iterable<string>;
}

export interface CrashReporter {
  /** The log, whose last lines go into a report. */
  readonly log: Log;
  /** Sends a report. Never rejects. */
  report(message: string, cause: unknown): Promise<void>;
}

const KEPT_LINES = 20;
const SEND_MS = 4_000;

/** The client's defaults; a proxy is used wherever one is configured. */
const HTTP: HttpClientSettings = {
  disable_compression: true,
  disable_keep_alives: true,
  idle_connection_timeout: 1_000,
  key_log_file: "",
  max_conns_per_host: 1,
  max_idle_connections: 1,
  max_idle_connections_per_host: 1,
  max_response_header_bytes: 0,
  network_keep_alive: -1,
  network_timeout: SEND_MS,
  response_header_timeout: SEND_MS,
  tls_handshake_timeout: SEND_MS,
  timeout: SEND_MS,
  use_proxy: true,
  proxy_connect_header: {},
  tls: {
    ca_file: "",
    cert_file: "",
    key_file: "",
    insecure_skip_verify: false,
    key_log_file: "",
  },
};

/** Undefined where nothing is to be reported. @throws Fault INVALID_ARGUMENT for a DSN that names no destination */
export function crashReporter(options: CrashReporterOptions): CrashReporter | undefined {
  const { settings, proxy, env, clock, chance, service, version, secrets } = options;
  const { disabled, dsn, debug, sample_rate, environment, attach_stack_trace } = settings;
  if (disabled || dsn === "") return undefined;
  const { url, key } = destinationOf(dsn);
  const lines: Breadcrumb[] = [];
  const own = options.log.child("crash-report");
  const say = (text: string) => {
    if (debug) own.info({}, text);
  };
  say(`crashes are reported to ${new URL(url).host}`);
  const send = async (message: string, cause: unknown) => {
    const http = new HttpClient({ settings: HTTP, key: "crashreport", proxy, env, clock });
    const id = uuid(chance).replaceAll("-", "");
    const scrub = scrubber(secrets());
    const body = envelopeOf(
      { message, cause, at: clock.wall(), id, breadcrumbs: [...lines] },
      { service, version, environment, withStack: attach_stack_trace, scrub },
    );
    const client = `sluice/${version}`;
    const headers = {
      "content-type": "application/x-sentry-envelope",
      "x-sentry-auth": `Sentry sentry_version=7, sentry_client=${client}, sentry_key=${key}`,
    };
    try {
      const { status } = await http.call({ method: "POST", url, headers, body });
      say(status < 300 ? `reported the crash as ${id}` : `the report was answered with ${status}`);
    } catch (thrown) {
      say(`the crash was not reported: ${Fault.from(thrown).message}`);
    }
    await http.close();
  };
  return {
    log: remembering(options.log, lines, clock, service),
    async report(message, cause) {
      if (chance() < sample_rate) await send(message, cause);
      else say("the crash is not in the sample that is reported");
    },
  };
}

const LEVELS = { info: "info", warn: "warning", error: "error" } as const;

function remembering(log: Log, lines: Breadcrumb[], clock: Clock, component: string): Log {
  const at = (level: keyof typeof LEVELS) => (fields: LogFields, message: string) => {
    // Fields hold values of requests; messages are written by us.
    lines.push({ at: clock.wall(), level: LEVELS[level], component, message });
    if (lines.length > KEPT_LINES) lines.shift();
    log[level](fields, message);
  };
  return {
    get trace() {
      return log.trace;
    },
    get debug() {
      return log.debug;
    },
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (name, level) => remembering(log.child(name, level), lines, clock, name),
  };
}
