// An HTTP request as handlers see it. Costly parts are created on demand.

import type { HttpRequest } from "#base/handler.ts";
import type { RouteMatch } from "./router.ts";

/** A request as the exchange received it. */
export interface ReceivedHead {
  readonly httpMethod: string;
  readonly headers: HttpRequest["headers"];
}

export class ReceivedRequest implements HttpRequest {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly #received: ReceivedHead;
  readonly #search: string;
  #query: URLSearchParams | undefined;

  constructor(received: ReceivedHead, target: Target, { params }: RouteMatch, body: Uint8Array) {
    this.path = target.path;
    this.params = params;
    this.body = body;
    this.#received = received;
    this.#search = target.search;
  }

  get method(): string {
    return this.#received.httpMethod;
  }

  get headers(): HttpRequest["headers"] {
    return this.#received.headers;
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.#search);
    return this.#query;
  }
}

export interface Target {
  /** Host and port in absolute form; undefined in origin form. */
  readonly authority: string | undefined;
  readonly path: string;
  /** The part after the `?`. */
  readonly search: string;
}

/** Parses a request target in origin form, or in the absolute form that proxies send (RFC 9112 §3.2). */
export function readTarget(url: string): Target {
  let origin = url;
  let authority: string | undefined;
  if (!origin.startsWith("/")) {
    const scheme = origin.indexOf("://");
    // `*` is not a path: no route matches it.
    if (scheme === -1) return { authority, path: origin, search: "" };
    const rest = origin.slice(scheme + 3);
    const end = rest.search(/[/?]/);
    authority = end === -1 ? rest : rest.slice(0, end);
    origin = end === -1 ? "/" : rest.slice(end);
    if (origin.startsWith("?")) origin = `/${origin}`;
  }
  const query = origin.indexOf("?");
  return query === -1
    ? { authority, path: origin, search: "" }
    : { authority, path: origin.slice(0, query), search: origin.slice(query + 1) };
}
