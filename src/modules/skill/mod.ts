// Skills: instructions that agents read when they need them.
export { type SkillModule, skillModule } from "./module.ts";
