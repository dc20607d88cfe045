// Plugins: programs outside of the gateway that add commands, buttons and filters to it.
export { type PluginModule, pluginModule } from "./module.ts";
