//go:build race

package config

const underRace = true
