// The life of a process: start within a budget, serve, stop in reverse on a signal, hurry on the second one,
// and end with an exit code that tells which it was.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { Scope } from "#base/scope.ts";

/** Codes above 64 are those of sysexits(3). A process that a second signal cut ends with 128 + its number. */
export const EXIT = {
  clean: 0,
  /** A one-shot command's answer was "no". */
  refused: 1,
  /** The configuration or the command line cannot be used. */
  usage: 64,
  /** Something outside is not to be had: the address to listen on, the agent to ask. */
  unavailable: 69,
  /** The start failed, something essential broke, or the stop did not end in time. */
  internal: 70,
} as const;

type Listener = (what: unknown) => void;
export type Event = "SIGHUP" | "SIGINT" | "SIGTERM" | "uncaughtException" | "unhandledRejection";

/** What a process gets from the outside; tests hand in their own. */
export interface Surroundings {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  stderr(text: string): void;
  exit(code: number): void;
  on(event: Event, listener: Listener): void;
  off(event: Event, listener: Listener): void;
  /** Keeps the process alive until the returned function is called. */
  hold(): () => void;
}

/** Where the process speaks once its log stands; before that it is stderr. */
export interface Voice {
  info(message: string): void;
  error(message: string, cause?: unknown): void;
  /** Called once, after the last word: what is still on its way gets out. */
  close?(): Promise<void>;
}

/** What `main` is given. */
export interface Life {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** How to stop what was started, in the order of starting. */
  readonly scope: Scope;
  /** Aborted when the stop begins, also while still starting. */
  readonly stopping: AbortSignal;
  /** From now on the process speaks through this. */
  speakThrough(voice: Voice): void;
  /** Something essential broke while serving: stop, and end with code 70. */
  fail(message: string, cause?: unknown): void;
}

/** Starts everything, then returns: nothing to serve until a signal, a number to be done with that exit code. */
export type Main = (life: Life) => Promise<number | undefined>;

export interface Budgets {
  readonly startMs?: number;
  /** For the drain; what is still there afterwards is cut. */
  readonly stopMs?: number;
  /** For the cut. */
  readonly cutMs?: number;
}

const START_MS = 30_000;
const STOP_MS = 15_000;
const CUT_MS = 1_000;
/** A terminal that goes away ends the process as orderly as whoever asks it to stop. */
const SIGNAL_NUMBER = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
type SignalName = keyof typeof SIGNAL_NUMBER;

/** Why the process ends. */
type End =
  | { readonly kind: "done"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: SignalName }
  | { readonly kind: "unstarted"; readonly code: number; readonly message: string; cause: unknown }
  | { readonly kind: "failed"; readonly message: string; readonly cause: unknown }
  | { readonly kind: "crashed"; readonly message: string; readonly cause: unknown };

/** Runs a process from start to exit; resolves to the exit code after `exit` was called with it. */
export function run(main: Main, around: Surroundings, budgets: Budgets = {}): Promise<number> {
  return new Process(around, budgets).live(main);
}

class Process {
  readonly #around: Surroundings;
  readonly #budgets: Required<Budgets>;
  readonly #scope: Scope;
  readonly #stopping = new AbortController();
  readonly #ended = Promise.withResolvers<End>();
  readonly #hurried = Promise.withResolvers<number>();
  #voice: Voice;
  #ending = false;
  #crashed = false;

  constructor(around: Surroundings, { startMs, stopMs, cutMs }: Budgets) {
    const waits = { startMs: startMs ?? START_MS, stopMs: stopMs ?? STOP_MS };
    this.#around = around;
    this.#budgets = { ...waits, cutMs: cutMs ?? CUT_MS };
    this.#scope = new Scope((name, thrown) => this.#voice.error(`stop of ${name} failed`, thrown));
    this.#voice = plainVoice(around);
  }

  async live(main: Main): Promise<number> {
    const release = this.#around.hold();
    const listeners = this.#listeners();
    for (const [event, listener] of listeners) this.#around.on(event, listener);
    const started = this.#start(main);
    const end = await this.#ended.promise;
    const code = await this.#stop(end, started);
    await this.#voice.close?.();
    for (const [event, listener] of listeners) this.#around.off(event, listener);
    release();
    this.#around.exit(code);
    return code;
  }

  #listeners(): readonly (readonly [Event, Listener])[] {
    return [
      ["SIGHUP", () => this.#signalled("SIGHUP")],
      ["SIGINT", () => this.#signalled("SIGINT")],
      ["SIGTERM", () => this.#signalled("SIGTERM")],
      ["uncaughtException", (thrown) => this.#crash("uncaught exception", thrown)],
      ["unhandledRejection", (thrown) => this.#crash("unhandled rejection", thrown)],
    ];
  }

  /** Never rejects: a start that fails ends the process. */
  async #start(main: Main): Promise<void> {
    const { startMs } = this.#budgets;
    const late = new Fault("DEADLINE_EXCEEDED", `wanted a start within ${startMs} ms`);
    const disarm = this.#around.clock.alarm(startMs, () => this.#unstarted(late));
    try {
      const code = await main(this.#life());
      if (code !== undefined) this.#end({ kind: "done", code });
    } catch (thrown) {
      this.#unstarted(thrown);
    } finally {
      disarm();
    }
  }

  #life(): Life {
    const { argv, env, clock } = this.#around;
    const fail = (message: string, cause?: unknown) =>
      this.#end({ kind: "failed", message, cause });
    const speakThrough = (voice: Voice) => {
      this.#voice = voice;
    };
    const stopping = this.#stopping.signal;
    return { argv, env, clock, scope: this.#scope, stopping, speakThrough, fail };
  }

  #unstarted(cause: unknown): void {
    const code = exitCode(cause);
    // A Fault's message is the whole story; anything else needs its stack.
    const told = cause instanceof Fault;
    const message = told ? `cannot start: ${cause.message}` : "cannot start";
    this.#end({ kind: "unstarted", code, message, cause: told ? cause.cause : cause });
  }

  #signalled(signal: SignalName): void {
    if (!this.#ending) {
      this.#end({ kind: "signal", signal });
      return;
    }
    this.#voice.info(`${signal} while stopping: what is left is cut`);
    this.#hurried.resolve(128 + SIGNAL_NUMBER[signal]);
  }

  /** Reported once: what breaks while going down is a consequence. */
  #crash(message: string, cause: unknown): void {
    if (this.#crashed) return;
    this.#crashed = true;
    if (!this.#ending) {
      this.#end({ kind: "crashed", message, cause });
      return;
    }
    this.#voice.error(`${message} while stopping`, cause);
    this.#hurried.resolve(EXIT.internal);
  }

  /** The first reason counts. */
  #end(end: End): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#tell(end);
    this.#stopping.abort();
    this.#ended.resolve(end);
  }

  #tell(end: End): void {
    if (end.kind === "signal") this.#voice.info(`${end.signal}: draining`);
    else if (end.kind !== "done") this.#voice.error(end.message, end.cause);
  }

  /** Drains, or cuts where draining makes no sense or takes too long. Gives the exit code. */
  async #stop(end: End, started: Promise<void>): Promise<number> {
    const wanted = codeOf(end);
    if (end.kind === "crashed") {
      await this.#cut();
      return wanted;
    }
    const late = Promise.withResolvers<number>();
    const disarm = this.#around.clock.alarm(this.#budgets.stopMs, () => {
      this.#voice.error(
        `the drain did not end within ${this.#budgets.stopMs} ms: what is left is cut`,
      );
      late.resolve(EXIT.internal);
    });
    const drained = this.#drain(end, started);
    const hurry = await Promise.race([drained, this.#hurried.promise, late.promise]);
    disarm();
    if (hurry === undefined) return wanted;
    await this.#cut();
    return wanted === EXIT.clean ? hurry : wanted;
  }

  /** A start that is under way gives up first, so that all it made is stopped. One that is late is not waited for. */
  async #drain(end: End, started: Promise<void>): Promise<undefined> {
    if (end.kind !== "unstarted") await started;
    await this.#scope.close("drain");
    if (end.kind === "signal") this.#voice.info("drained");
  }

  async #cut(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const disarm = this.#around.clock.alarm(this.#budgets.cutMs, late.resolve);
    await Promise.race([this.#scope.close("cut"), late.promise]);
    disarm();
  }
}

function codeOf(end: End): number {
  if (end.kind === "signal") return EXIT.clean;
  return end.kind === "done" || end.kind === "unstarted" ? end.code : EXIT.internal;
}

/** Of what was thrown. Never 0: what failed must look failed to whoever supervises the process. */
export function exitCode(thrown: unknown): number {
  const { code } = Fault.from(thrown);
  if (code === "INVALID_ARGUMENT") return EXIT.usage;
  return code === "UNAVAILABLE" ? EXIT.unavailable : EXIT.internal;
}

/** One line for what happened, the cause with its stack below it. */
function plainVoice({ stderr }: Pick<Surroundings, "stderr">): Voice {
  return {
    info: (message) => stderr(`sluice: ${message}\n`),
    error: (message, cause) => {
      const stack = cause instanceof Error ? (cause.stack ?? cause.message) : cause;
      stderr(`sluice: ${message}${cause === undefined ? "" : `\n${String(stack)}`}\n`);
    },
  };
}
