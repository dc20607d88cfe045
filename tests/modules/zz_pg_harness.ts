import postgres from "postgres";
import { openGateway as open } from "../harness.ts";
export * from "../harness.ts";
export async function openGateway() {
  const sql = postgres("postgres://postgres@127.0.0.1:55439/postgres", { max: 1, onnotice: () => {} });
  const name = `t${crypto.randomUUID().replaceAll("-", "")}`;
  await sql.unsafe(`create database ${name}`);
  await sql.end();
  return await open({ SVC_DATABASE_URL: `postgres://postgres@127.0.0.1:55439/${name}` });
}
