package diskwriter

import "reflect"

// Default sets an option of a store that has the zero value of its type, such as a function that is
// nil.
func Default[T any](option *T, value T) {
	if reflect.ValueOf(option).Elem().IsZero() {
		*option = value
	}
}
