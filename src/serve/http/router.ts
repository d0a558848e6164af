// Finds the route of a request: literal paths by one look-up, patterns in the order of the route table.

import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";

export interface RouteMatch {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

type Segment =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "one"; readonly name: string }
  | { readonly kind: "rest"; readonly name: string };

type Methods = Map<string, Route>;

const PARAMETER = /^\{([a-z_][a-z0-9_]*)(\.\.\.)?\}$/i;
const NONE: Readonly<Record<string, string>> = Object.freeze({});

export class Router {
  readonly #literal = new Map<string, Methods>();
  readonly #patterns: { readonly segments: readonly Segment[]; readonly methods: Methods }[] = [];

  constructor(routes: readonly Route[]) {
    const patterns = new Map<string, Methods>();
    for (const route of routes) {
      const segments = parse(route.path);
      const table = segments.every(({ kind }) => kind === "literal") ? this.#literal : patterns;
      let methods = table.get(route.path);
      if (methods === undefined) {
        methods = new Map();
        table.set(route.path, methods);
        if (table === patterns) this.#patterns.push({ segments, methods });
      }
      if (methods.has(route.method)) {
        throw new Fault(
          "INTERNAL",
          `route ${route.method} ${route.path} appears twice in the route table`,
        );
      }
      methods.set(route.method, route);
    }
  }

  /** True if there is a route that replies even to malformed requests. */
  repliesUnread(method: string, path: string): boolean {
    try {
      return this.find(method, path).route.unread !== undefined;
    } catch {
      return false;
    }
  }

  /** Throws 404 if no route has the path, and 405 if its routes have other methods. */
  find(method: string, path: string): RouteMatch {
    const literal = this.#literal.get(path);
    if (literal !== undefined) return { route: chooseMethod(literal, method), params: NONE };
    const parts = path.slice(1).split("/");
    for (const { segments, methods } of this.#patterns) {
      const params = matchSegments(segments, parts);
      if (params !== undefined) return { route: chooseMethod(methods, method), params };
    }
    throw new Fault("NOT_FOUND", "Not Found");
  }
}

function parse(path: string): readonly Segment[] {
  if (!path.startsWith("/")) throw new Fault("INTERNAL", `route path ${path} must start with /`);
  const parts = path.slice(1).split("/");
  return parts.map((text, at): Segment => {
    const [, name, rest] = PARAMETER.exec(text) ?? [];
    if (name === undefined) return { kind: "literal", text };
    if (rest !== undefined && at !== parts.length - 1) {
      throw new Fault("INTERNAL", `route path ${path}: {${name}...} must come last`);
    }
    return { kind: rest === undefined ? "one" : "rest", name };
  });
}

function matchSegments(
  segments: readonly Segment[],
  parts: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const params: Record<string, string> = {};
  for (const [at, segment] of segments.entries()) {
    if (segment.kind === "rest") {
      params[segment.name] = parts.slice(at).map(decode).join("/");
      return params;
    }
    const part = parts[at];
    if (part === undefined || part === "") return undefined;
    if (segment.kind === "one") params[segment.name] = decode(part);
    else if (part !== segment.text) return undefined;
  }
  return parts.length === segments.length ? params : undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "the path is not valid percent-encoding", { cause });
  }
}

function chooseMethod(methods: Methods, method: string): Route {
  const route = methods.get(method === "HEAD" ? "GET" : method);
  if (route !== undefined) return route;
  const allow = [...methods.keys()].flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name]));
  throw new Fault("UNIMPLEMENTED", "Method Not Allowed", {
    http: 405,
    headers: { allow: allow.join(", ") },
  });
}
