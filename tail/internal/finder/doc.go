// Package finder promises to find every file that patterns match, as soon as events of
// the kernel tell of it and otherwise by looking, and never to name one twice in a walk.
// It says where files are and nothing of what becomes of them.
package finder
