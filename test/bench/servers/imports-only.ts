// A process that only loads the libraries that any service of this kind would load, then exits: the yardstick for
// Sluice's start.

import "@grpc/grpc-js";
import "protobufjs";
import "pino";
