package scripts

// What the language is made of, for those who write about it or colour it: manuals, editors, completions.

// BuiltIn reports whether import(name) means a module that is built in, whatever else has the name.
func BuiltIn(name string) bool { return builtinModule(name) }
