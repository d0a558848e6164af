// What the peer asked for in its SETTINGS frames (RFC 9113 §6.5.2).

import { ConnectionFault, protocolFault } from "./fault.ts";
import { ERROR, FIRST_WINDOW, MAX_FRAME, MAX_WINDOW, PAYLOAD, SETTING, uint32 } from "./frames.ts";
import { HEADER_TABLE } from "./limits.ts";

const LARGEST_FRAME = 0xffffff;

export class PeerSettings {
  headerTable = HEADER_TABLE;
  /** The smallest of several that one frame said: the next header block owes it an update (RFC 7541 §4.2). */
  smallestTable = HEADER_TABLE;
  initialWindow = FIRST_WINDOW;

  /** Reads a payload of whole settings. Throws ConnectionFaults. */
  read(bytes: Buffer, start: number, end: number): void {
    this.smallestTable = Number.POSITIVE_INFINITY;
    for (let at = start; at < end; at += PAYLOAD.setting) {
      this.#set(((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0), uint32(bytes, at + 2));
    }
  }

  /** Settings that do not concern us, unknown ones among them, are ignored. */
  #set(id: number, value: number): void {
    if (id === SETTING.headerTable) {
      this.headerTable = value;
      this.smallestTable = Math.min(this.smallestTable, value);
    } else if (id === SETTING.initialWindow) {
      if (value > MAX_WINDOW) {
        throw new ConnectionFault(
          ERROR.flowControl,
          "flow_control",
          "the first window is too large",
        );
      }
      this.initialWindow = value;
    } else if (id === SETTING.maxFrame) {
      // Frames of ours are never longer than the least that it may be, so only its range matters.
      if (value < MAX_FRAME || value > LARGEST_FRAME) {
        throw protocolFault("SETTINGS_MAX_FRAME_SIZE is out of its range");
      }
    } else if (id === SETTING.enablePush && value > 1) {
      throw protocolFault("SETTINGS_ENABLE_PUSH must be 0 or 1");
    }
  }
}
