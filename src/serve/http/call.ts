// One HTTP request as handlers see it. The parts that cost something are made when they are asked for.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Call, HttpRequest } from "../handler.ts";
import { plainAddress } from "../listen/address.ts";
import type { Found } from "./router.ts";

export class HttpCall implements Call {
  readonly method: string;
  readonly deadline: number;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #replies: Record<string, string> | undefined;
  #controller: AbortController | undefined;

  constructor(found: Found, deadline: number, request: IncomingMessage, response: ServerResponse) {
    this.method = found.route.path;
    this.deadline = deadline;
    this.#request = request;
    this.#response = response;
  }

  get peer(): string {
    return plainAddress(this.#request.socket.remoteAddress ?? "");
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return typeof value === "object" ? value[0] : value;
  }

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      const response = this.#response;
      if (response.closed) controller.abort();
      else response.once("close", () => response.writableFinished || controller.abort());
    }
    return this.#controller.signal;
  }

  reply(name: string, value: string): void {
    this.#replies ??= {};
    this.#replies[name] = value;
  }

  get replies(): Readonly<Record<string, string>> | undefined {
    return this.#replies;
  }

  /** The deadline has passed: the caller has been answered, nobody needs the work. */
  expire(): void {
    this.#controller?.abort();
  }
}

export class ReceivedRequest implements HttpRequest {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly #request: IncomingMessage;
  readonly #search: string;
  #query: URLSearchParams | undefined;

  constructor(request: IncomingMessage, target: Target, found: Found, body: Uint8Array) {
    this.#request = request;
    this.path = target.path;
    this.#search = target.search;
    this.params = found.params;
    this.body = body;
  }

  get method(): string {
    return this.#request.method ?? "";
  }

  get headers(): HttpRequest["headers"] {
    return this.#request.headers;
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
    const slash = origin.indexOf("/", origin.indexOf("://") + 3);
    origin = slash === -1 ? "/" : origin.slice(slash);
  }
  const query = origin.indexOf("?");
  return query === -1
    ? { path: origin, search: "" }
    : { path: origin.slice(0, query), search: origin.slice(query + 1) };
}
