// In a test the platform is that of Node, whose `fetch` sends by itself.

export function fetchBy() {}
