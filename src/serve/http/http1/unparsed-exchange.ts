// An exchange over HTTP/1.1 whose header section Node's parser refused: only its request line is known. It is answered
// where its route has a reply to that, and its connection ends, since nobody knows where the next request would begin.

import type { Socket } from "node:net";
import type { HttpRequest } from "#base/handler.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { type HttpContext, HttpExchange } from "../exchange.ts";
import { linger, replyHead } from "../reply.ts";
import { readTarget } from "../request.ts";
import type { HeadStart } from "./head-start.ts";

/** An error of Node's parser. */
export interface ParserError {
  readonly code?: string | undefined;
  /** The bytes that were read last, and the number of them that was parsed. */
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
  new UnparsedExchange(context, socket, line.method, path, refusal).answer();
  return true;
}

class UnparsedExchange extends HttpExchange {
  readonly httpMethod: string;
  readonly headers: HttpRequest["headers"] = {};
  protected readonly requestTarget: string;
  protected readonly headRefusal: Refusal;
  protected readonly mustReadRest = false;
  readonly #socket: Socket;

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
    this.headRefusal = refusal;
    this.#socket = socket;
  }

  answer(): void {
    this.begin();
  }

  get peer(): string {
    return canonicalAddress(this.#socket.remoteAddress ?? "");
  }

  protected validateHead(): void {}

  protected validateHost(): void {}

  protected receiveBody(): void {}

  /** Nothing that follows is read as a request. */
  protected discardRest(): void {
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

  /** A refusal leaves nothing taken. */
  protected releaseUnlessTaken(): void {}

  protected abortReply(): void {
    this.#socket.destroy();
  }

  protected handlerPending(): void {}
}
