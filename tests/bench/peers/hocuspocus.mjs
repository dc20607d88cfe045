// Hocuspocus as its documentation starts it: no storage, no authentication.
import process from "node:process";
import { Server } from "@hocuspocus/server";

new Server({ port: Number(process.env.PORT), address: "127.0.0.1", quiet: true }).listen();
