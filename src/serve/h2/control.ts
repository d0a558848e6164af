// What frames bring that carry no call: windows, settings, pings, priorities, goodbyes (RFC 9113 §6.3, §6.5 to §6.9).
// Each draws on the budget of such frames.

import { ConnectionFault, protocolFault, sizeFault } from "./fault.ts";
import { ERROR, FLAG, FRAME, MAX_WINDOW, PAYLOAD, uint31 } from "./frames.ts";
import { STREAMS_PER_CONTROL } from "./limits.ts";
import { PeerSettings } from "./peer-settings.ts";
import { breakOff, type Receiving, refuse } from "./receiving.ts";

export class Control {
  readonly #connection: Receiving;
  readonly #settings = new PeerSettings();

  constructor(connection: Receiving) {
    this.#connection = connection;
  }

  /** A frame of one of these kinds, or of one that nobody knows. */
  frame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    this.#connection.guard.control();
    if (type === FRAME.window) this.#window(id, bytes, start, end);
    else if (type === FRAME.settings) this.#setting(flags, id, bytes, start, end);
    else if (type === FRAME.ping) this.#ping(flags, id, bytes, start, end);
    else if (type === FRAME.priority) this.#priority(id, bytes, start, end);
    else if (type === FRAME.goaway) this.#goAway(id, end - start);
  }

  #window(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== PAYLOAD.number) throw sizeFault("a WINDOW_UPDATE frame has 4 bytes");
    const connection = this.#connection;
    const by = uint31(bytes, start);
    if (id === 0) {
      if (by === 0) throw protocolFault("a window widened by nothing");
      connection.window += by;
      if (connection.window > MAX_WINDOW) throw tooWide();
      connection.streams.unblock(connection);
      return;
    }
    if (connection.streams.unopened(id)) throw protocolFault("WINDOW_UPDATE on an idle stream");
    const stream = connection.streams.live.get(id);
    if (stream === undefined) {
      if (by === 0) refuse(connection, id, ERROR.protocol, "stream");
      return;
    }
    stream.window += by;
    if (by === 0) breakOff(connection, stream, ERROR.protocol, "stream");
    else if (stream.window > MAX_WINDOW) breakOff(connection, stream, ERROR.flowControl, "stream");
    else stream.pump();
  }

  #setting(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault("SETTINGS on a stream");
    if ((flags & FLAG.ack) !== 0) {
      if (end !== start) throw sizeFault("an acknowledgement of SETTINGS is empty");
      return;
    }
    if ((end - start) % PAYLOAD.setting !== 0) throw sizeFault("SETTINGS of broken length");
    const connection = this.#connection;
    const settings = this.#settings;
    settings.read(bytes, start, end);
    if (settings.smallestTable < settings.headerTable) {
      connection.encoder.limitTable(settings.smallestTable);
    }
    connection.encoder.limitTable(settings.headerTable);
    connection.frames.settingsTaken();
    this.#resize(settings.initialWindow);
  }

  /** Work for every stream in a frame of few bytes: many streams make it worth many frames. */
  #resize(window: number): void {
    const { streams, guard } = this.#connection;
    if (window === streams.window) return;
    for (let paid = 0; paid < streams.live.size; paid += STREAMS_PER_CONTROL) guard.control();
    if (!streams.resize(window)) throw tooWide();
  }

  #ping(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault("PING on a stream");
    if (end - start !== PAYLOAD.ping) throw sizeFault("a PING frame has 8 bytes");
    if ((flags & FLAG.ack) !== 0) this.#connection.ponged(bytes[end - 1] ?? 0);
    else this.#connection.frames.pong(bytes, start);
  }

  /** Priorities are read and not followed (RFC 9113 §5.3.2). */
  #priority(id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw protocolFault("PRIORITY on stream 0");
    const long = end - start === PAYLOAD.priority;
    const selfish = long && uint31(bytes, start) === id;
    if (long && !selfish) return;
    const connection = this.#connection;
    const stream = connection.streams.live.get(id);
    if (stream !== undefined) {
      breakOff(connection, stream, selfish ? ERROR.protocol : ERROR.frameSize, "stream");
    } else if (selfish) throw protocolFault("a stream that depends on itself");
    else throw sizeFault("a PRIORITY frame has 5 bytes");
  }

  #goAway(id: number, length: number): void {
    if (id !== 0) throw protocolFault("GOAWAY on a stream");
    if (length < PAYLOAD.goaway) throw sizeFault("a GOAWAY frame that is too short");
    this.#connection.peerLeaves();
  }
}

function tooWide(): ConnectionFault {
  return new ConnectionFault(ERROR.flowControl, "flow_control", "a window beyond its most");
}
