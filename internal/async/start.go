// Package async starts goroutines whose end can be awaited.
package async

// Start runs f and returns a channel that is closed when it returns.
func Start(f func()) <-chan struct{} {
	done := make(chan struct{})
	// Awaited by whoever receives from done.
	go func() {
		defer close(done)
		f()
	}()
	return done
}
