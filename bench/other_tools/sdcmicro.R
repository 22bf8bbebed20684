# Microaggregation by sdcMicro: Rscript bench/other_tools/sdcmicro.R TABLE.csv K
# Prints one line of JSON: the version, elapsed seconds of the call, and loss = 100 SSE / SST of standardised columns.
suppressMessages(library(sdcMicro))
given <- commandArgs(trailingOnly = TRUE)
x <- scale(as.matrix(read.csv(given[1])))
seconds <- system.time(found <- microaggregation(as.data.frame(x), method = "mdav", aggr = as.integer(given[2])))
loss <- 100 * sum((x - as.matrix(found$mx))^2) / sum(x^2)
cat(sprintf('{"version": "%s", "seconds": %.3f, "loss": %.4f}\n', packageVersion("sdcMicro"), seconds["elapsed"], loss))
