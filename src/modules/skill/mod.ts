// Skills: instructions that agents read when they need them.
export { skillModule } from "./module.ts";
