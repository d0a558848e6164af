// An exchange over HTTP/1.1 whose header section Node's parser refused, so that only its request line is known. It is
// answered if its route replies to such requests. Its connection closes, since the start of the next request is
// unknown.

import type { Socket } from "node:net";
import type { HttpRequest } from "#base/handler.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { HttpContext } from "../context.ts";
import { HttpExchange } from "../exchange.ts";
import { linger, replyHead } from "../reply.ts";
import { readTarget } from "../request.ts";
import type { HeadStart } from "./head-start.ts";

/** An error of Node's parser. */
export interface ParserError {
  readonly code?: string | undefined;
  /** The last read, and the number of its parsed bytes. */
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
}

/** Returns whether the request has been answered. */
export function answerUnparsed(
  context: HttpContext,
  socket: Socket,
  headStart: HeadStart,
  { code = "", rawPacket, bytesParsed }: ParserError,
): boolean {
  if (!code.startsWith("HPE_")) return false;
  const line = headStart.requestLine(rawPacket?.subarray(0, bytesParsed));
  if (line === undefined) return false;
  const { path } = readTarget(line.target);
  if (!context.router.repliesUnread(line.method, path)) return false;
  const tooLarge = code === "HPE_HEADER_OVERFLOW";
  const refusal = tooLarge ? REFUSALS.headTooLarge : REFUSALS.malformedHead;
  new UnparsedExchange(context, socket, line.method, path, refusal).begin();
  return true;
}

class UnparsedExchange extends HttpExchange {
  readonly httpMethod: string;
  readonly headers: HttpRequest["headers"] = {};
  protected readonly requestTarget: string;
  readonly #socket: Socket;
  readonly #refusal: Refusal;

  constructor(
    context: HttpContext,
    socket: Socket,
    method: string,
    path: string,
    refusal: Refusal,
  ) {
    super(context);
    this.httpMethod = method;
    this.requestTarget = path;
    this.#refusal = refusal;
    this.#socket = socket;
  }

  protected override get headRefusal(): Refusal {
    return this.#refusal;
  }

  get peer(): string {
    return canonicalAddress(this.#socket.remoteAddress ?? "");
  }

  protected receiveBody(): void {}

  /** Nothing that follows is read as a request. */
  protected override discardRest(): void {
    this.#socket.removeAllListeners("data");
    linger(this.#socket, this.context.clock);
  }

  protected sendReply(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
  ): boolean {
    const socket = this.#socket;
    const head = `${replyHead(status, fields)}Connection: close\r\n\r\n`;
    const bytes = Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]);
    socket.write(bytes, (error) => this.finished(!(error instanceof Error)));
    socket.destroySoon();
    return false;
  }

  /** A refusal holds no slots. */
  protected releaseUnlessTaken(): void {}

  protected abortReply(): void {
    this.#socket.destroy();
  }
}
