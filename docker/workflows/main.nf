// nextflow run docker/workflows/main.nf --registry registry.parquet --recipes 'recipes/*.toml'
// Masks a registry by every recipe and measures each release.  With -with-docker gpuanon it runs in the container.
params.registry = "registry.parquet"
params.recipes = "recipes/*.toml"
params.out = "releases"

process protect {
    cpus 2
    input: tuple path(registry), path(recipe)
    output: tuple path(registry), path(recipe), path("${recipe.baseName}.parquet"), path("link.csv")
    script:
    "gpuanon protect ${registry} ${recipe} -o ${recipe.baseName}.parquet --link link.csv --quiet"
}

process assess {
    publishDir params.out, mode: "copy"
    input: tuple path(registry), path(recipe), path(release), path(link)
    output: tuple path(release), path("${recipe.baseName}.assessment.json")
    script:
    "gpuanon assess ${registry} ${release} --recipe ${recipe} --link ${link} --json > ${recipe.baseName}.assessment.json"
}

workflow {
    Channel.fromPath(params.recipes).map { recipe -> tuple(file(params.registry), recipe) } | protect | assess
}
