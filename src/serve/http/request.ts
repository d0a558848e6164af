// One HTTP request as handlers see it. The parts that cost something are made when they are asked for.

import type { HttpRequest } from "../handler.ts";
import type { Found } from "./router.ts";

/** What the carrier knows of a request. */
export interface Received {
  readonly httpMethod: string;
  readonly headers: HttpRequest["headers"];
}

export class ReceivedRequest implements HttpRequest {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly #received: Received;
  readonly #search: string;
  #query: URLSearchParams | undefined;

  constructor(received: Received, target: Target, { params }: Found, body: Uint8Array) {
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
  readonly path: string;
  /** After the `?`, without it. */
  readonly search: string;
}

/** The request target in origin form, or in the absolute form that proxies send (RFC 9112 §3.2). */
export function readTarget(url: string): Target {
  let origin = url;
  if (!origin.startsWith("/")) {
    const scheme = origin.indexOf("://");
    // `*` is no path: no route has it.
    if (scheme === -1) return { path: origin, search: "" };
    const end = origin.slice(scheme + 3).search(/[/?]/);
    origin = end === -1 ? "/" : origin.slice(scheme + 3 + end);
    if (origin.startsWith("?")) origin = `/${origin}`;
  }
  const query = origin.indexOf("?");
  return query === -1
    ? { path: origin, search: "" }
    : { path: origin.slice(0, query), search: origin.slice(query + 1) };
}
