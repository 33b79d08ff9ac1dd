// Command packaging builds everything that a release of kusto-agent consists of, and
// two builds of one commit give the same bytes, whatever folder and day they are made in.
//
//	go -C internal/packaging run . --output ../../dist
//
// It writes static binaries for amd64 and arm64 as .deb, .rpm and .tar.gz, a list of
// components (CycloneDX) for each, a container image of both, and SHA256SUMS. Time and
// version are those of the commit that is checked out; --version names a release.
//
// It is a module of its own, so that what makes packages is no part of the agent's
// dependencies.
package main
