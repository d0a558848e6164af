// The log of a process: JSON lines, made by pino and written to the writers of `log.*`. line.ts decides what a line may
// contain, sink.ts how it is written, file.ts how files rotate.

import { join, resolve } from "node:path";
import { type Logger, pino } from "pino";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields, LogLine } from "#base/log.ts";
import { LogFile, type Rotation } from "./file.ts";
import { LogLevels, levelOf, NO_COMPONENT } from "./levels.ts";
import { colouredLine, prettyLine, safeLine, safeText } from "./line.ts";
import { blockingOutlet, queuedOutlet, reshaped, type Sink, standardSink } from "./sink.ts";

/** The log of a process, which owns its outputs. */
export interface ProcessLog extends Log {
  /** Number of lines lost so far, because the queue was full or a writer failed. */
  readonly dropped: number;
  /** Writes queued lines, for 2 s at most, and closes the files. Closes children too; later lines are lost. */
  close(): Promise<void>;
  /** Opens the log files again, and logs what cannot be opened. */
  reopen(): void;
  readonly levels: Pick<LogLevels, "current" | "change">;
}

interface LogWriter extends Rotation {
  /** `stderr`, `stdout`, `default` or a path. */
  readonly file: string;
}

export interface LogSettings {
  /** As documented for `log.level`; upper or lower case, empty is info. */
  readonly level: string;
  /** Format of lines on standard streams. `auto`: text on a terminal, JSON elsewhere. Files always hold JSON. */
  readonly format: "auto" | "json" | "text";
  readonly non_blocking: boolean;
  readonly pretty_console: boolean;
  readonly writers: readonly LogWriter[];
}

export interface LogPlace {
  /** The name in every line and of the default file. */
  readonly service: string;
  readonly clock: Clock;
  /** Levels have colours on a terminal. */
  readonly colours?: boolean;
  /** The system log directory. */
  readonly directory?: string;
  readonly stderr?: Sink;
  readonly stdout?: Sink;
}

/** The keyword `default` stands for a folder of the service inside this directory. */
const SYSTEM_LOG_DIRECTORY = "/var/log/sluice";

/** Throws a Fault when a file cannot be written: a process that silently loses its log is worse than one that does not start. */
export function openLog(settings: LogSettings, place: LogPlace): ProcessLog {
  const level = levelOf(settings.level);
  const sinks = level === "silent" ? [] : sinksOf(settings, place);
  const lost = (lines: number) => logger.warn({ lines }, "log lines were lost");
  const outlet = settings.non_blocking ? queuedOutlet(sinks, lost) : blockingOutlet(sinks);
  let closed: Promise<void> | undefined;
  const logger = pino(
    {
      level,
      base: { service: place.service },
      messageKey: "message",
      timestamp: () => `,"time":"${new Date(place.clock.wall()).toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: safeLine,
      },
    },
    { write: (line) => (closed === undefined ? outlet.write(line) : undefined) },
  );
  // Written at every level, so that nobody silences the log unseen.
  const always = logger.child({}, { level: "trace" });
  const levels = new LogLevels(level, (of, to) =>
    always.warn({ of, to }, "the level of the log was changed"),
  );
  levels.add(NO_COMPONENT, logger);
  const components = new Map<string, Log>();
  const child: Log["child"] = (component, own) => {
    const known = components.get(component);
    if (known !== undefined) return known;
    const made = logger.child({ component });
    levels.add(component, made, own === undefined ? level : levelOf(own));
    const log = new ComponentLog(made, child);
    components.set(component, log);
    return log;
  };
  const log = new ComponentLog(logger, child);
  const { info, warn, error } = log;
  return {
    child,
    info,
    warn,
    error,
    get trace() {
      return log.trace;
    },
    get debug() {
      return log.debug;
    },
    levels,
    get dropped() {
      return outlet.dropped;
    },
    reopen() {
      for (const sink of closed === undefined ? sinks : []) {
        try {
          sink.reopen?.();
        } catch (thrown) {
          const kept = "a log file was not opened again: lines go where they went before";
          error({ error: thrown }, kept);
        }
      }
    },
    close() {
      closed ??= within(CLOSE_MS, place.clock, outlet.close());
      return closed;
    },
  };
}

/** Milliseconds. A reader that has stopped reading must not keep the process from ending. */
const CLOSE_MS = 2_000;

class ComponentLog implements Log {
  readonly child: Log["child"];
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  readonly #logger: Logger;
  readonly #trace: LogLine;
  readonly #debug: LogLine;

  constructor(logger: Logger, child: Log["child"]) {
    this.#logger = logger;
    this.child = child;
    const at =
      (level: "trace" | "debug" | "info" | "warn" | "error"): LogLine =>
      (fields: LogFields, message: string): void => {
        if (logger.isLevelEnabled(level)) logger[level](fields, safeText(message));
      };
    this.#trace = at("trace");
    this.#debug = at("debug");
    this.info = at("info");
    this.warn = at("warn");
    this.error = at("error");
  }

  get trace(): LogLine | undefined {
    return this.#logger.isLevelEnabled("trace") ? this.#trace : undefined;
  }

  get debug(): LogLine | undefined {
    return this.#logger.isLevelEnabled("debug") ? this.#debug : undefined;
  }
}

/** Opens all writers, or none when one fails. */
function sinksOf(settings: LogSettings, place: LogPlace): readonly Sink[] {
  const stderr = place.stderr ?? standardSink(2);
  const standard = (sink: Sink) => formatted(sink, settings.format, place.colours === true);
  const sinks: Sink[] = [];
  const taken = new Set<string>();
  try {
    for (const writer of settings.writers) {
      const target = targetOf(writer.file, place);
      if (taken.has(target)) {
        throw new Fault(
          "INVALID_ARGUMENT",
          `log.writers: wanted each target once, got ${target} twice`,
        );
      }
      taken.add(target);
      if (target === "stderr") sinks.push(standard(stderr));
      else if (target === "stdout") sinks.push(standard(place.stdout ?? standardSink(1)));
      else sinks.push(new LogFile(target, writer, place.clock));
    }
  } catch (thrown) {
    for (const sink of sinks) void sink.close();
    throw thrown;
  }
  if (settings.pretty_console) sinks.push(formatted(stderr, "text", place.colours === true));
  return sinks.length === 0 ? [standard(stderr)] : sinks;
}

/** A standard stream with its lines in a format. */
function formatted(sink: Sink, format: LogSettings["format"], colours: boolean): Sink {
  const terminal = sink.terminal === true;
  if (format === "json" || (format === "auto" && !terminal)) return sink;
  return reshaped(sink, terminal && colours ? colouredLine : prettyLine);
}

function targetOf(file: string, { service, directory = SYSTEM_LOG_DIRECTORY }: LogPlace): string {
  if (file === "stderr" || file === "stdout") return file;
  return file === "default" ? join(directory, service, `${service}.log`) : resolve(file);
}
