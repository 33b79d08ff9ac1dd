// Package version names what the program was built from: its release, or the commit of
// a checkout.
package version

import "runtime/debug"

// release is set by the release build (-ldflags "-X kusto-agent/internal/version.release=…").
var release = ""

// Text is the release; of another build "devel", with the commit where it is known.
func Text() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}
