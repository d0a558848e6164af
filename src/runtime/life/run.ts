// The life of a process: it starts within a time limit, serves until a signal arrives, drains, stops everything in
// reverse order, and ends with an exit code that tells the reason. A second signal cuts the drain short.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { type Code, Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import { Scope } from "#base/scope.ts";

/** Codes from 64 on are those of sysexits(3). A process whose drain a second signal cut ends with 128 + its number. */
export const EXIT = {
  clean: 0,
  /** The answer of a one-shot command was "no". */
  refused: 1,
  /** The configuration or the command line cannot be used. */
  usage: 64,
  /** Something outside is unavailable: the address to listen on, the agent to ask. */
  unavailable: 69,
  /** The start failed, an essential part failed, or the stop took too long. */
  internal: 70,
} as const;

type Listener = (event: unknown) => void;
export type ProcessEvent =
  | "SIGHUP"
  | "SIGINT"
  | "SIGTERM"
  | "uncaughtException"
  | "unhandledRejection";

/** The facilities of the operating system for a process; tests pass their own. */
export interface OperatingSystem {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  stderr(text: string): void;
  /** `force`: something may still run that an ordinary exit would wait for, such as a file that cannot be opened. */
  exit(code: number, force: boolean): void;
  on(event: ProcessEvent, listener: Listener): void;
  off(event: ProcessEvent, listener: Listener): void;
  /** Keeps the process alive until the returned function is called. */
  keepAlive(): () => void;
}

/** The log of the process. Before `main` hands one over, messages go to stderr. */
interface ClosableLog extends Pick<Log, "info" | "error"> {
  /** Called once, after the last line: writes what is still queued. */
  close(): Promise<void>;
}

type CrashListener = (message: string, cause: unknown) => Promise<void>;

/** The context that `main` works in. */
export interface ProcessContext {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Holds what was started, and stops it in reverse order. */
  readonly scope: Scope;
  /** Aborted when the stop begins, which may be while the process still starts. */
  readonly stopping: AbortSignal;
  /** From now on the process logs to this. */
  useLog(log: ClosableLog): void;
  /**
   * Calls the listener at each SIGHUP until the process stops: what it read from files may have changed. Without a
   * listener the signal ends the process, as a terminal that closes does.
   */
  onReload(listener: () => void): void;
  /**
   * Calls the listener when the process crashes or an essential part fails. The process ends when it settles, or some
   * seconds later. It must not throw.
   */
  onCrash(listener: CrashListener): void;
  /** Reports that an essential part failed while serving: the process stops and ends with code 70. */
  fail(message: string, cause?: unknown): void;
}

/** Starts everything. Returns undefined to serve until a signal arrives, or an exit code to end with at once. */
export type Main = (context: ProcessContext) => Promise<number | undefined>;

/** Time limits in milliseconds. */
export interface TimeLimits {
  readonly startMs?: number;
  /** For the drain; whatever still runs afterwards is cut. */
  readonly stopMs?: number;
  /** For the cut. */
  readonly cutMs?: number;
}

const START_MS = 30_000;
const STOP_MS = 15_000;
const CUT_MS = 1_000;
/** Time for reporting a crash. */
const CRASH_REPORT_MS = 5_000;
const SIGNAL_NUMBER = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
type SignalName = keyof typeof SIGNAL_NUMBER;

/** The reason for which the process ends. */
type End =
  | { readonly kind: "done"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: SignalName }
  | {
      readonly kind: "start failed";
      readonly code: number;
      readonly message: string;
      readonly cause: unknown;
    }
  | { readonly kind: "failed"; readonly message: string; readonly cause: unknown }
  | { readonly kind: "crashed"; readonly message: string; readonly cause: unknown };

/** Runs a process from start to exit. Resolves to the exit code after `exit` was called with it. */
export function run(main: Main, system: OperatingSystem, limits: TimeLimits = {}): Promise<number> {
  return new ProcessRun(system, limits).run(main);
}

class ProcessRun {
  readonly #system: OperatingSystem;
  readonly #limits: Required<TimeLimits>;
  readonly #scope: Scope;
  readonly #stopping = new AbortController();
  readonly #ended = Promise.withResolvers<End>();
  /** Resolves to the exit code when a second signal or a crash cuts the drain. */
  readonly #interrupted = Promise.withResolvers<number>();
  #log: ClosableLog;
  readonly #reloads: (() => void)[] = [];
  readonly #crashListeners: CrashListener[] = [];
  #ending = false;
  #crashed = false;
  #wasCut = false;

  constructor(
    system: OperatingSystem,
    { startMs = START_MS, stopMs = STOP_MS, cutMs = CUT_MS }: TimeLimits,
  ) {
    this.#system = system;
    this.#limits = { startMs, stopMs, cutMs };
    this.#scope = new Scope((name, error) => this.#log.error({ error }, `stop of ${name} failed`));
    this.#log = stderrLog(system);
  }

  async run(main: Main): Promise<number> {
    const release = this.#system.keepAlive();
    const listeners = this.#listeners();
    for (const [event, listener] of listeners) this.#system.on(event, listener);
    const started = this.#start(main);
    const end = await this.#ended.promise;
    const reported = this.#reportCrash(end);
    const code = await this.#stop(end, started);
    await reported;
    await this.#log.close();
    for (const [event, listener] of listeners) this.#system.off(event, listener);
    release();
    this.#system.exit(code, this.#wasCut || end.kind === "start failed");
    return code;
  }

  #listeners(): readonly (readonly [ProcessEvent, Listener])[] {
    return [
      ["SIGHUP", () => this.#hungUp()],
      ["SIGINT", () => this.#signalled("SIGINT")],
      ["SIGTERM", () => this.#signalled("SIGTERM")],
      ["uncaughtException", (thrown) => this.#crash("uncaught exception", thrown)],
      ["unhandledRejection", (thrown) => this.#crash("unhandled rejection", thrown)],
    ];
  }

  /** Never rejects: a start that fails ends the process. */
  async #start(main: Main): Promise<void> {
    const { startMs } = this.#limits;
    const late = new Fault("DEADLINE_EXCEEDED", `wanted a start within ${startMs} ms`);
    const disarm = this.#system.clock.alarm(startMs, () => this.#startFailed(late));
    try {
      const code = await main(this.#context());
      if (code !== undefined) this.#end({ kind: "done", code });
    } catch (thrown) {
      this.#startFailed(thrown);
    } finally {
      disarm();
    }
  }

  #context(): ProcessContext {
    const { argv, env, clock } = this.#system;
    const fail = (message: string, cause?: unknown) =>
      this.#end({ kind: "failed", message, cause });
    const useLog = (log: ClosableLog) => {
      this.#log = log;
    };
    const stopping = this.#stopping.signal;
    const onReload = (listener: () => void) => void this.#reloads.push(listener);
    const onCrash = (listener: CrashListener) => void this.#crashListeners.push(listener);
    return { argv, env, clock, scope: this.#scope, stopping, useLog, onReload, onCrash, fail };
  }

  #startFailed(cause: unknown): void {
    const code = exitCode(cause);
    // The message of a Fault explains the failure; any other error needs its stack.
    const explained = cause instanceof Fault;
    const message = explained ? `cannot start: ${cause.message}` : "cannot start";
    this.#end({ kind: "start failed", code, message, cause: explained ? cause.cause : cause });
  }

  #hungUp(): void {
    if (this.#reloads.length === 0) this.#signalled("SIGHUP");
    else if (!this.#ending) for (const reload of this.#reloads) reload();
  }

  #signalled(signal: SignalName): void {
    if (!this.#ending) {
      this.#end({ kind: "signal", signal });
      return;
    }
    this.#log.info({}, `${signal} while stopping: cutting what is left`);
    this.#interrupted.resolve(128 + SIGNAL_NUMBER[signal]);
  }

  /** Reports the first crash only: those after it are consequences. */
  #crash(message: string, cause: unknown): void {
    if (this.#crashed) return;
    this.#crashed = true;
    if (!this.#ending) {
      this.#end({ kind: "crashed", message, cause });
      return;
    }
    this.#log.error(causeFields(cause), `${message} while stopping`);
    this.#interrupted.resolve(EXIT.internal);
  }

  /** Begins the stop. Only the first reason counts. */
  #end(end: End): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#logEnd(end);
    this.#stopping.abort();
    this.#ended.resolve(end);
  }

  #logEnd(end: End): void {
    if (end.kind === "signal") this.#log.info({}, `${end.signal}: draining`);
    else if (end.kind !== "done") this.#log.error(causeFields(end.cause), end.message);
  }

  async #reportCrash(end: End): Promise<void> {
    if (end.kind !== "crashed" && end.kind !== "failed") return;
    const reports = this.#crashListeners.map((listener) => listener(end.message, end.cause));
    await within(CRASH_REPORT_MS, this.#system.clock, Promise.allSettled(reports));
  }

  /** Drains, or cuts when a drain makes no sense (after a crash) or takes too long. Returns the exit code. */
  async #stop(end: End, started: Promise<void>): Promise<number> {
    const code = codeOf(end);
    if (end.kind === "crashed") {
      await this.#cut();
      return code;
    }
    const { stopMs } = this.#limits;
    const drained = Promise.race([this.#drain(end, started), this.#interrupted.promise]);
    const interrupted = await within(stopMs, this.#system.clock, drained, () => {
      this.#log.error({}, `the drain did not end within ${stopMs} ms: cutting what is left`);
      return EXIT.internal;
    });
    if (interrupted === undefined) return code;
    await this.#cut();
    return code === EXIT.clean ? interrupted : code;
  }

  /**
   * Waits for a start that is still under way, so that everything it started is stopped too. A start that failed or
   * ran out of time is not waited for.
   */
  async #drain(end: End, started: Promise<void>): Promise<undefined> {
    if (end.kind !== "start failed") await started;
    await this.#scope.close("drain");
    if (end.kind === "signal") this.#log.info({}, "drained");
  }

  async #cut(): Promise<void> {
    this.#wasCut = true;
    await within(this.#limits.cutMs, this.#system.clock, this.#scope.close("cut"));
  }
}

function codeOf(end: End): number {
  if (end.kind === "signal") return EXIT.clean;
  if (end.kind === "done" || end.kind === "start failed") return end.code;
  return end.kind === "failed" && isRefusal(end.cause) ? EXIT.usage : EXIT.internal;
}

/** A server that a part of the process needs refused its credentials. */
const REFUSALS: ReadonlySet<Code> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED"]);
/** The configuration or the command line cannot be used. */
const MISCONFIGURED: ReadonlySet<Code> = new Set([
  "INVALID_ARGUMENT",
  "FAILED_PRECONDITION",
  ...REFUSALS,
]);

function isRefusal(cause: unknown): boolean {
  return cause instanceof Fault && REFUSALS.has(cause.code);
}

/** The exit code for an error. Never 0: a supervisor must see that the process failed. */
export function exitCode(thrown: unknown): number {
  const { code } = Fault.from(thrown);
  if (MISCONFIGURED.has(code)) return EXIT.usage;
  return code === "UNAVAILABLE" ? EXIT.unavailable : EXIT.internal;
}

function causeFields(cause: unknown): LogFields {
  return cause === undefined ? {} : { error: cause };
}

/** One line for each message, followed by the stack of the error, if there is one. */
function stderrLog({ stderr }: Pick<OperatingSystem, "stderr">): ClosableLog {
  return {
    info: (_, message) => stderr(`sluice: ${message}\n`),
    error: ({ error }, message) => {
      const stack = error instanceof Error ? (error.stack ?? error.message) : error;
      stderr(`sluice: ${message}${error === undefined ? "" : `\n${String(stack)}`}\n`);
    },
    close: async () => undefined,
  };
}
