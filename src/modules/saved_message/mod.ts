// Messages that people saved, each for itself, some with a reminder.
export { savedMessageModule } from "./module.ts";
