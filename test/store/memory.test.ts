import { memoryStore } from "#store/memory.ts";
import { storeSuite } from "./suite.ts";

storeSuite("memory", async () => memoryStore());
