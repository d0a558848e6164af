// Finds the route of a request in the table: literal paths in one look-up, patterns in table order.

import { Fault } from "#base/fault.ts";
import type { Route } from "../handler.ts";

export interface Found {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

type Piece =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "one"; readonly name: string }
  | { readonly kind: "rest"; readonly name: string };

type Methods = Map<string, Route>;

const PARAMETER = /^\{([a-z_][a-z0-9_]*)(\.\.\.)?\}$/i;
const NONE: Readonly<Record<string, string>> = Object.freeze({});

export class Router {
  readonly #literal = new Map<string, Methods>();
  readonly #patterns: { readonly pieces: readonly Piece[]; readonly methods: Methods }[] = [];

  constructor(routes: readonly Route[]) {
    const patterns = new Map<string, Methods>();
    for (const route of routes) {
      const pieces = parse(route.path);
      const table = pieces.every(({ kind }) => kind === "literal") ? this.#literal : patterns;
      let methods = table.get(route.path);
      if (methods === undefined) {
        methods = new Map();
        table.set(route.path, methods);
        if (table === patterns) this.#patterns.push({ pieces, methods });
      }
      if (methods.has(route.method)) {
        throw new Fault(
          "INTERNAL",
          `route ${route.method} ${route.path} stands twice in the table`,
        );
      }
      methods.set(route.method, route);
    }
  }

  /** Throws 404 for a path that no route has and 405 for one whose routes take other methods. */
  find(method: string, path: string): Found {
    const literal = this.#literal.get(path);
    if (literal !== undefined) return { route: choose(literal, method), params: NONE };
    const parts = path.slice(1).split("/");
    for (const { pieces, methods } of this.#patterns) {
      const params = match(pieces, parts);
      if (params !== undefined) return { route: choose(methods, method), params };
    }
    throw new Fault("NOT_FOUND", "Not Found");
  }
}

function parse(path: string): readonly Piece[] {
  if (!path.startsWith("/")) throw new Fault("INTERNAL", `route path ${path} must start with /`);
  const parts = path.slice(1).split("/");
  return parts.map((text, at): Piece => {
    const [, name, rest] = PARAMETER.exec(text) ?? [];
    if (name === undefined) return { kind: "literal", text };
    if (rest !== undefined && at !== parts.length - 1) {
      throw new Fault("INTERNAL", `route path ${path}: {${name}...} must come last`);
    }
    return { kind: rest === undefined ? "one" : "rest", name };
  });
}

function match(
  pieces: readonly Piece[],
  parts: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const params: Record<string, string> = {};
  for (const [at, piece] of pieces.entries()) {
    if (piece.kind === "rest") {
      params[piece.name] = parts.slice(at).map(decode).join("/");
      return params;
    }
    const part = parts[at];
    if (part === undefined || part === "") return undefined;
    if (piece.kind === "one") params[piece.name] = decode(part);
    else if (part !== piece.text) return undefined;
  }
  return parts.length === pieces.length ? params : undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "the path is not valid percent-encoding", { cause });
  }
}

function choose(methods: Methods, method: string): Route {
  const route = methods.get(method === "HEAD" ? "GET" : method);
  if (route !== undefined) return route;
  const allow = [...methods.keys()].flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name]));
  throw new Fault("UNIMPLEMENTED", "Method Not Allowed", {
    http: 405,
    headers: { allow: allow.join(", ") },
  });
}
