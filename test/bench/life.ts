// The life of a process that only loads the libraries which any service of this kind would load.

import "@grpc/grpc-js";
import "protobufjs";
import "pino";
