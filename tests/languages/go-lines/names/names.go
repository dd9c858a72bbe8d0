// Package names is one of the project's. A comment at the end of a line is the name that the test has for it.
package names

// Get panics.
func Get(given map[string]*int) int {
	return *given["missing"] // get
}

// Deep never returns.
func Deep(number int) int {
	return 1 + Deep(number+1) // deep
}
