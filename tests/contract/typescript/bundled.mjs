// Finds modules as a bundler does, without the endings of their names, so that Node runs what tsc has checked.
import { registerHooks } from "node:module";

registerHooks({
  resolve(specifier, context, next) {
    for (const ending of [".ts", "/index.ts"]) {
      try {
        return next(specifier + ending, context);
      } catch {
        // it has another ending
      }
    }
    return next(specifier, context);
  },
});
