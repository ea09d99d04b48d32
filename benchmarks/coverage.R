# Intervals of R quantreg for samples in a binary file (columns y, x1, x2 of n rows each): Rscript coverage.R FILE n tau se
suppressMessages(library(quantreg))
given <- commandArgs(trailingOnly = TRUE)
n <- as.integer(given[2]); tau <- as.numeric(given[3])
input <- file(given[1], "rb")
repeat {
  values <- readBin(input, "double", 3 * n)
  if (length(values) < 3 * n) break
  d <- data.frame(matrix(values, n))
  fit <- suppressWarnings(rq(X1 ~ X2 + X3, tau, d))
  table <- suppressWarnings(summary(fit, se = given[4])$coefficients)
  cat(format(c(table[, 1], table[, 2]), digits = 12), "\n")
}
