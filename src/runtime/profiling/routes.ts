// Profiles over HTTP, and the profile of a whole run as a file.

import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { HttpReply, Route } from "#base/handler.ts";
import { createFolder } from "../life/folder.ts";
import { keepProfile, profileDirectory } from "./files.ts";
import { ProcessProfiler } from "./profiler.ts";

/** `profilers.*` of the configuration. */
export interface ProfilersSettings {
  /** Profiles the processor from start to stop; the profile and heap routes are busy meanwhile. */
  readonly cpu_profiler: boolean;
  /** A directory; `default` is that of the service under the system log directory. */
  readonly profiles_path: string;
}

export interface Profiles {
  readonly routes: readonly Route[];
  /** Starts the profile of the whole run if it is configured. The returned function ends it and writes the file. */
  start(): Promise<() => Promise<void>>;
}

const MAX_SECONDS = 60;
const DEFAULT_SECONDS = 30;

/** `service` is the name of this process; the command line route shows `argv`. */
export function profiles(
  settings: ProfilersSettings,
  around: {
    readonly service: string;
    readonly argv: readonly string[];
    readonly clock: Clock;
    /** Shared with others that take profiles; one of its own by default. */
    readonly profiler?: ProcessProfiler;
  },
): Profiles {
  const { profiler = new ProcessProfiler(around.clock) } = around;
  const directory = profileDirectory(settings.profiles_path, around.service);
  return {
    routes: profileRoutes(profiler, around),
    async start() {
      if (!settings.cpu_profiler) return () => Promise.resolve();
      // Fails now rather than at the end, when the profile would be lost.
      try {
        createFolder(directory);
      } catch (thrown) {
        const wanted = `profilers.profiles_path: ${directory}: wanted a directory that can be written`;
        throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
      }
      const finish = await profiler.throughout();
      return async () => {
        await keepProfile(directory, "cpu", await finish(), around.clock.wall());
      };
    },
  };
}

function profileRoutes(
  profiler: ProcessProfiler,
  around: { readonly argv: readonly string[] },
): readonly Route[] {
  const routes: readonly Route[] = [
    row("profile", `Processor profile of ?seconds=N (1 to ${MAX_SECONDS}, default 30).`, {
      stream: true,
      handle: async ({ query }, call) =>
        binary(
          "profile",
          await profiler.cpu(seconds(query) ?? DEFAULT_SECONDS * 1_000, call.signal()),
        ),
    }),
    row("heap", "Current use of memory; with ?seconds=N allocations made in that time, by code.", {
      stream: true,
      async handle({ query }, call) {
        const ms = seconds(query);
        const sampled =
          ms === undefined ? profiler.memory() : profiler.allocations(ms, call.signal());
        return binary("heap", await sampled);
      },
    }),
    row("goroutine", "What keeps the process awake (handles, timers, requests), by kind.", {
      handle: () => resources(),
    }),
    row("cmdline", "Command line, its arguments separated by NUL.", {
      handle: () => text(around.argv.join("\0")),
    }),
    row("symbol", "Answers that there are no symbols to look up: profiles contain names.", symbol),
    { ...row("symbol", "The same, for tools that post addresses.", symbol), method: "POST" },
  ];
  const index = routes
    .map(({ method, path, about }) => `${method} ${path}\n    ${about}\n`)
    .join("");
  return [row("", "List of profiles.", { handle: () => text(index) }), ...routes];
}

const symbol = { handle: () => text("num_symbols: 0\n") } as const;

function row(name: string, about: string, rest: Pick<Route, "handle" | "stream">): Route {
  const path = name === "" ? "/debug/pprof" : `/debug/pprof/${name}`;
  return { method: "GET", path, about, access: "administration", ...rest };
}

/** The parameter `seconds` in milliseconds, or undefined when there is none. */
function seconds(query: URLSearchParams): number | undefined {
  const given = query.get("seconds");
  if (given === null) return undefined;
  const count = /^\d{1,4}$/.test(given) ? Number(given) : 0;
  if (count < 1 || count > MAX_SECONDS) {
    throw new Fault("INVALID_ARGUMENT", `seconds: wanted a whole number from 1 to ${MAX_SECONDS}`);
  }
  return count * 1_000;
}

/** Active handles, timers and requests by kind, the most frequent first. */
function resources(): HttpReply {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  return text(sorted.map(([kind, count]) => `${count} ${kind}\n`).join(""));
}

function text(body: string): HttpReply {
  return { status: 200, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

function binary(name: string, body: Uint8Array): HttpReply {
  const headers = {
    "content-type": "application/octet-stream",
    "content-disposition": `attachment; filename="${name}.pb.gz"`,
  };
  return { status: 200, headers, body };
}
