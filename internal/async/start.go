// Package async starts goroutines whose end can be awaited.
package async

// Start runs f in a goroutine and returns a channel that is closed when f returns. f must end by
// itself; the caller waits for the channel.
func Start(f func()) <-chan struct{} {
	done := make(chan struct{})
	// Awaited by whoever receives from done.
	go func() {
		defer close(done)
		f()
	}()
	return done
}
